// Which words are others with an ending: node check_endings.mjs STATIC CASES. CASES: {vocabulary, forms}.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [folder, path] = process.argv.slice(2);
const { isInflected } = await import(pathToFileURL(`${folder}/slips.js`));

const { vocabulary, forms } = JSON.parse(readFileSync(path, "utf-8"));
const known = new Set(vocabulary);
console.log(JSON.stringify(forms.map((form) => isInflected(form, (word) => known.has(word)))));
