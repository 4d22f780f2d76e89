// Writes the pictures for viewers that run no script: NAME.svg, an explorable at its start, and NAME-NUMBER.svg, where
// lesson NUMBER shows it in a state that looks otherwise; stills.json holds these states. Run it after an edit, and once
// the notebooks are built: node still.mjs
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";

const here = new URL("./", import.meta.url);
const lessons = new URL("../../../notebooks/solutions/", here);
const write = (name, content) => writeFileSync(new URL(name, here), content);
const stills = {};
for (const old of readdirSync(here).filter((name) => /-\d\d\.svg$/.test(name))) rmSync(new URL(old, here));
for (const file of readdirSync(here).filter((name) => name.endsWith(".mjs") && !/^(host|still)/.test(name))) {
  const { still } = await import(new URL(file, here));
  write(file.replace(".mjs", ".svg"), still());
}
for (const notebook of readdirSync(lessons).filter((name) => name.endsWith(".ipynb"))) {
  const { cells } = JSON.parse(readFileSync(new URL(notebook, lessons)));
  for (const { metadata } of cells.flatMap(({ outputs = [] }) => outputs)) {
    const { explore, state } = metadata?.["image/svg+xml"] ?? {};
    if (!explore) continue;
    const { still } = await import(new URL(`${explore}.mjs`, here));
    if (still(state) === still()) continue;
    const name = `${explore}-${notebook.slice(0, 2)}`;
    stills[name] = state;
    write(`${name}.svg`, still(state));
  }
}
write("stills.json", `${JSON.stringify(stills, null, 1)}\n`);
