// Writes NAME.svg, the picture of every explorable at its start. Run it after an edit: node still.mjs
import { readdirSync, writeFileSync } from "node:fs";

const here = new URL("./", import.meta.url);
for (const name of readdirSync(here).filter(
  (file) => file.endsWith(".mjs") && !["host.mjs", "still.mjs"].includes(file),
)) {
  const { still } = await import(new URL(name, here));
  writeFileSync(new URL(name.replace(".mjs", ".svg"), here), still());
}
