// The model in a worker of the browser: what rheostat.runtime.predictor does, on the core as WebAssembly.
//
// Messages in: {id, kind, …}. Out: {id, answer} or {id, error}.
//   "suggest"  {text, percent, k, userWords}   only the last request counts: an older one that waits is dropped
//   "times"    {percents}                      the time of a query at each position, interleaved
//
// The model file is fetched once; a position of the knob is a few numbers. Nothing is built when the knob turns.

import { loadCore, openModel } from "./rheostat.js";
import { Typist } from "./typist.js";

const ROUNDS = 31; // over all positions, so that load affects them all equally
const WARM_UP = 3; // rounds before that: browsers compile WebAssembly again, better, while it runs

let typist = null;
let latest = null;
const queue = [];
let working = false;

self.addEventListener("message", ({ data }) => {
  if (data.kind === "suggest") latest = data;
  else queue.push(data);
  if (!working) work();
});

async function work() {
  working = true;
  while (latest || queue.length) {
    const message = latest ?? queue.shift();
    if (message === latest) latest = null;
    try {
      typist ??= await load();
      const answer = message.kind === "times" ? await times(message) : typist.answer(message);
      self.postMessage({ id: message.id, answer });
    } catch (error) {
      self.postMessage({ id: message.id, error: error.message });
    }
  }
  working = false;
}

async function load() {
  const facts = await (await get("model.json")).json();
  const [module, file] = await Promise.all([bytes("rheostat.wasm"), bytes(facts.browser.model)]);
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

/** Interleaved rounds. Between two rounds, waiting requests are answered first. */
async function times({ percents }) {
  const seen = new Map(percents.map((percent) => [percent, []]));
  for (let round = -WARM_UP; round < ROUNDS; round += 1) {
    for (const percent of shuffled(percents)) {
      const time = typist.queryMs(percent);
      if (round >= 0) seen.get(percent).push(time);
    }
    await new Promise((resolve) => setTimeout(resolve)); // lets messages in
    if (latest) {
      const { id, ...message } = latest;
      latest = null;
      self.postMessage({ id, answer: typist.answer(message) });
    }
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
