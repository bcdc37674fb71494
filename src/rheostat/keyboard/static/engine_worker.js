// The model in a worker of the browser: what rheostat.runtime.predictor does, on the core as WebAssembly.
//
// Messages in: {id, kind, …}. Out: {id, answer} or {id, error}.
//   "suggest"  {text, percent, k, userWords, taps, cache}   only the last request counts: an older one that waits is dropped
//   "correct"  the same                                     what the last word, now finished, was meant to be
//   "times"    {percents}                                   the time of a query at each position, interleaved
//   "remember" {on, isPrivate, text}                        whether to learn from what is written; text: the text so far
//   "see"      {text, accepted}, "end" {text}               what is written now; it was sent
//   "forget"   {word}, {lastHour} or {everything}
//   "export"                                                all counts, as JSON in the format of Python's file
//
// The model file is fetched once; a position of the knob is a few numbers. Nothing is built when the knob turns.

import { Memory, MemoryStore } from "./memory.js";
import { loadCore, openModel } from "./rheostat.js";
import { Typist } from "./typist.js";
import { adviceOf } from "./slips.js";
import { Corrections, Watch } from "./watch.js";

const ROUNDS = 31; // over all positions, so that load affects them all equally
const WARM_UP = 3; // rounds before that: browsers optimize WebAssembly further while it runs
const WRITE_MS = 500; // after something was learned
const MOST_LISTED = 200; // phrases

let typist = null;
let tokenizer = "";
let latest = null;
const queue = [];
let working = false;

self.addEventListener("message", ({ data }) => {
  if (data.kind === "suggest") latest = data;
  else queue.push(data);
  if (!working) work();
});

const ANSWERS = {
  suggest,
  correct,
  times,
  remember,
  see: ({ text, accepted }) => learned(() => watch?.see(text, accepted)),
  end: ({ text }) => learned(() => watch?.end(text)),
  forget,
  export: () => JSON.stringify(typist.memory),
};

async function work() {
  working = true;
  while (await answerNext()) {}
  working = false;
}

/** Answer the latest text first, then waiting requests: all, or only the quick ones. Returns whether there were any. */
async function answerNext(isQuick = () => true) {
  const place = latest ? -1 : queue.findIndex(isQuick);
  const message = place < 0 ? latest : queue.splice(place, 1)[0];
  if (place < 0) latest = null;
  if (!message) return false;
  try {
    typist ??= await load();
    self.postMessage({ id: message.id, answer: await ANSWERS[message.kind](message) });
  } catch (error) {
    self.postMessage({ id: message.id, error: error.message });
  }
  return true;
}

async function load() {
  const facts = await (await get("model.json")).json();
  const [module, file] = await Promise.all([bytes("rheostat.wasm"), bytes(facts.browser.model)]);
  tokenizer = facts.tokenizer;
  return new Typist(openModel(await loadCore(module), file), facts);
}

async function get(name) {
  const response = await fetch(new URL(name, self.location.href)).catch(() => null);
  if (!response?.ok) throw new Error("The model could not be fetched into this browser.");
  return response;
}

async function bytes(name) {
  return new Uint8Array(await (await get(name)).arrayBuffer());
}

function suggest({ id, kind, ...asked }) {
  lastAsked = asked;
  return typist.answer(asked);
}

function correct(asked) {
  const found = typist.correct(asked);
  if (typist.memory && found.length && adviceOf(found[0]) === "correct") corrections.note(asked.text, found[0]);
  return found;
}

// --- memory ---

const store = new MemoryStore();
const corrections = new Corrections();
let watch = null;
let lastAsked = { percent: 100 }; // the knob, and the learned words
let writing = 0;

async function remember({ on, isPrivate, text }) {
  await typist.memory?.flush();
  typist.memory = on ? await new Memory(store).open() : null;
  watch = typist.memory && new Watch(isPrivate ? null : typist.memory, tokenizer, confidenceAsTyped, (word) => typist.isCorrect(word, lastAsked.userWords));
  watch?.skip(text);
  return listed();
}

/** How many words were learned, and the most frequent phrases. */
function listed() {
  const phrases = typist.memory?.phrases() ?? [];
  return { words: phrases.filter(([phrase]) => !phrase.includes(" ")).length, phrases: phrases.slice(0, MOST_LISTED) };
}

/** The confidence that the last word of a text is what was meant. */
function confidenceAsTyped(text) {
  const { percent, userWords } = lastAsked;
  const [best] = typist.correct({ text, percent, userWords, k: 1 });
  const sure = best ? (best.kind === "typed" ? best.confidence : 0) : 1;
  return corrections.limit(text, sure);
}

/** Learn, and write it soon. */
function learned(learn) {
  const { memory } = typist;
  const before = memory?.version;
  learn();
  if (memory?.version === before) return null;
  clearTimeout(writing);
  writing = setTimeout(() => memory.flush().catch(() => {}), WRITE_MS); // if it fails, it stays in memory
  return listed();
}

async function forget({ word, lastHour, everything }) {
  const { memory } = typist;
  if (everything) await memory?.clear();
  else if (lastHour) await memory?.forgetLastHour();
  else await memory?.forget(word);
  return listed();
}

// --- times ---

/** Interleaved rounds. Between two rounds, waiting requests are answered first. */
async function times({ percents }) {
  const seen = new Map(percents.map((percent) => [percent, []]));
  for (let round = -WARM_UP; round < ROUNDS; round += 1) {
    for (const percent of shuffled(percents)) {
      const time = typist.queryMs(percent);
      if (round >= 0) seen.get(percent).push(time);
    }
    await new Promise((resolve) => setTimeout(resolve)); // lets messages in
    while (await answerNext(({ kind }) => kind !== "times")) {}
  }
  return { times_ms: Object.fromEntries([...seen].map(([percent, list]) => [percent, undisturbed(list)])) };
}

/** In another order each round, so that nothing periodic always meets the same position. */
function shuffled(values) {
  return values.map((value) => [Math.random(), value]).sort(([one], [other]) => one - other).map(([, value]) => value);
}

/** The mean of the faster half, since other work only ever adds time; a mean is finer than a browser's rounded clock. */
function undisturbed(values) {
  const faster = [...values].sort((one, other) => one - other).slice(0, Math.ceil(values.length / 2));
  return faster.reduce((sum, value) => sum + value, 0) / faster.length;
}
