// Which words the page's filter knows: node check_known_words.mjs SITE CASES. A case is [the filter in base64, words].
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [site, path] = process.argv.slice(2);
const { KnownWords } = await import(pathToFileURL(`${site}/known_words.js`));

const cases = JSON.parse(readFileSync(path, "utf-8"));
console.log(JSON.stringify(cases.map(([stored, words]) => words.map((word) => new KnownWords(stored).has(word)))));
