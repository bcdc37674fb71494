// The page's memory in Node.js: node check_memory.mjs SITE CASES. A case is a list of operations, each [name, arguments…];
// "at" sets the clock. Its answers are those of "share", "phrases", "count", "file", "end", "complete" and "correct".
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { openTypist } from "./check_typing.mjs";

const [site, path] = process.argv.slice(2);
const load = (name) => import(pathToFileURL(`${site}/${name}`));
const { Memory } = await load("memory.js");
const { Corrections, Watch } = await load("watch.js");
const { adviceOf } = await load("slips.js");
const typist = await openTypist(await load("rheostat.js"), await load("typist.js"), (name) => readFileSync(`${site}/${name}`));

/** A place to keep what a memory writes. */
function makeStore() {
  let stored;
  return {
    read: async () => structuredClone(stored),
    update: async (change) => (stored = structuredClone(change(structuredClone(stored)))),
  };
}

async function run({ operations, limit, isMeant }) {
  let now = 0;
  const store = makeStore();
  const options = { clock: () => now, ...(limit ? { limit } : {}) };
  let memory = new Memory(store, options);
  let corrections = new Corrections();
  const confirm = isMeant === "model"
    ? (text) => {
        typist.memory = memory;
        const [best] = typist.correct({ text, percent: 100, k: 1 });
        return corrections.limit(text, best ? (best.kind === "typed" ? best.confidence : 0) : 1);
      }
    : () => 1;
  const isCorrect = isMeant === "model" ? (word) => typist.isCorrect(word) : () => true;
  let watch = new Watch(memory, "words", confirm, isCorrect);
  const answers = [];
  for (const [name, ...given] of operations) {
    if (name === "at") [now] = given;
    else if (name === "reopen") {
      await memory.flush();
      memory = await new Memory(store, options).open();
      corrections = new Corrections();
      watch = new Watch(memory, "words", confirm, isCorrect);
    } else if (name === "elsewhere") {
      const [act, ...named] = given;
      const other = await new Memory(store, options).open();
      await other[act](...named);
      await other.flush();
    } else if (name === "share") {
      const { ofModel, extra } = memory.share(...given);
      answers.push([ofModel, Object.fromEntries(extra)]);
    } else if (name === "phrases") answers.push(memory.phrases());
    else if (name === "count") answers.push(memory.count(...given));
    else if (name === "file") answers.push(memory.toJSON());
    else if (name === "see") watch.see(...given);
    else if (name === "end") answers.push(watch.end(...given));
    else if (name === "complete" || name === "correct") {
      typist.memory = memory;
      const found = typist[name](...given);
      if (name === "correct" && found.length && adviceOf(found[0]) === "correct") corrections.note(given[0].text, found[0]);
      answers.push(found);
    } else await memory[name](...given);
  }
  typist.memory = null;
  return answers;
}

const cases = JSON.parse(readFileSync(path, "utf-8"));
const found = [];
for (const one of cases) found.push(await run(one));
console.log(JSON.stringify(found));
