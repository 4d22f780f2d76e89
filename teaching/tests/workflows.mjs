// What GitHub's own language service says of workflow files: keys, values, expressions and the contexts they may use.
// node_modules/.bin/esbuild --bundle --platform=node tests/workflows.mjs | node - FILE... prints {FILE: [message, ...]}
import { readFileSync } from "node:fs";
import { validate } from "@actions/languageservice/validate";
import { TextDocument } from "vscode-languageserver-textdocument";

async function messages(path) {
  const uri = "file:///.github/workflows/" + path.replaceAll("/", "_"); // one for each file, since answers are kept by it
  const found = await validate(TextDocument.create(uri, "yaml", 0, readFileSync(path, "utf8")));
  return found.map((one) => `line ${one.range.start.line + 1}: ${one.message}`);
}

async function main(paths) {
  const all = {};
  for (const path of paths) all[path] = await messages(path);
  console.log(JSON.stringify(all));
}

main(process.argv.slice(2));
