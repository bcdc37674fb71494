// The model in a worker of the browser: what rheostat.runtime.predictor does, with onnxruntime-web.
//
// Messages in: {id, kind: "suggest", text, percent, k}. Out: {id, answer} or {id, error}. Only the last request counts:
// an older one that has not been started yet is dropped.

import { Completion } from "./completion.js";
import { END_OF_LINE, REMEMBERED, RUNTIME_FILES as RUNTIME, SPARE, TIMED_QUERIES as TIMED, UNKNOWN } from "./tables.js";
import { compose, distinct, splitTyped } from "./writing.js";

const FILES = ["manifest.json", "position.json", "step.onnx", "vocabulary.txt", "suggestible.bin"];
const MODELS_KEPT = 3;

let runtime = null;
let latest = null;
let working = false;
const models = new Map(); // percent -> Model, least recently used first

self.addEventListener("message", ({ data }) => {
  latest = data;
  if (!working) work();
});

async function work() {
  working = true;
  while (latest) {
    const message = latest;
    latest = null;
    try {
      self.postMessage({ id: message.id, answer: await answer(message) });
    } catch (error) {
      self.postMessage({ id: message.id, error: error.message });
    }
  }
  working = false;
}

async function answer({ text, percent, k }) {
  const { model, fetched } = await modelAt(percent);
  const start = performance.now();
  const suggestions = await model.suggest(text, k);
  const answerMs = performance.now() - start;
  return { suggestions, ...model.position, query_ms: model.queryMs, answer_ms: answerMs, fetched };
}

async function modelAt(percent) {
  const known = models.get(percent);
  if (known) {
    models.delete(percent);
    models.set(percent, known);
    return { model: known };
  }
  runtime ??= await startRuntime();
  const { model, fetched } = await loadNearest(percent);
  models.set(percent, model);
  for (const [old, { session }] of models) {
    if (models.size <= MODELS_KEPT) break;
    models.delete(old);
    if (![...models.values()].some((other) => other.session === session)) session.release();
  }
  await model.measure();
  return { model, fetched };
}

/** Offline, only some positions are available: takes the nearest that costs no more, otherwise the smallest. */
async function loadNearest(percent) {
  try {
    return await load(percent);
  } catch (error) {
    const stored = await storedPercents();
    const nearest = stored.filter((other) => other <= percent).at(-1) ?? stored[0];
    if (nearest === undefined || nearest === percent) throw error;
    const model = models.get(nearest);
    return model ? { model } : load(nearest);
  }
}

async function storedPercents() {
  if (!self.caches) return [];
  const percents = [];
  for (const name of await caches.keys()) {
    for (const { url } of await (await caches.open(name)).keys()) {
      const found = /\/api\/export\/(\d+)\/step\.onnx$/.exec(url);
      if (found) percents.push(Number(found[1]));
    }
  }
  return percents.sort((one, other) => one - other);
}

async function startRuntime() {
  const folder = new URL("runtime/", self.location.href);
  const ort = await import(new URL(RUNTIME[0], folder)).catch(() => {
    throw new Error("The browser runtime is not installed: run make web once, then reload the page.");
  });
  ort.env.wasm.wasmPaths = folder.href;
  // The page is isolated, so threads are allowed; but for one query at a time, a second thread costs more than it gains.
  ort.env.wasm.numThreads = 1;
  return ort;
}

async function load(percent) {
  const folder = new URL(`api/export/${percent}/`, self.location.href);
  const get = async (name) => {
    const response = await fetch(new URL(name, folder), { cache: "no-cache" });
    if (!response.ok) throw new Error(`The model at ${percent} % could not be fetched.`);
    return response;
  };
  const [manifest, position, graph, words, suggestible] = await Promise.all(FILES.map(get));
  const description = await manifest.json();
  const casing = description.casing ? await (await get(description.casing.file)).text() : "";
  const session = await runtime.InferenceSession.create(new Uint8Array(await graph.arrayBuffer()), {
    executionProviders: ["wasm"],
    graphOptimizationLevel: "all",
  });
  const vocabulary = (await words.text()).replace(/\n$/, "").split("\n");
  const allowed = new Uint8Array(await suggestible.arrayBuffer());
  const model = new Model(session, description, await position.json(), vocabulary, allowed, casing);
  const names = description.casing ? [...FILES, description.casing.file] : FILES;
  const fetched = [...names.map((name) => new URL(name, folder)), ...RUNTIME.map((name) => new URL(`runtime/${name}`, self.location.href))];
  return { model, fetched: fetched.map(String) };
}

class Model {
  #readings = []; // after each word of the text last read: {id, state, logProbabilities}

  constructor(session, manifest, position, vocabulary, suggestible, casing) {
    Object.assign(this, { session, position, vocabulary, tokenizer: manifest.tokenizer });
    this.parts = manifest.state;
    // The lazy output layer of an adaptive softmax gives the best words, not the probabilities of all words.
    this.lazy = !manifest.graphs.step.outputs.some(({ name }) => name === "log_probabilities");
    this.ids = new Map(vocabulary.map((word, id) => [word, id]));
    this.completion = new Completion(vocabulary, suggestible);
    this.casing = new Map(casing ? casing.split("\n").map((spelling) => [spelling.toLowerCase(), spelling]) : []);
    this.everything = new Uint8Array(vocabulary.length).fill(1);
    this.times = [];
  }

  get queryMs() {
    const ordered = [...this.times].sort((one, other) => one - other);
    return ordered[ordered.length >> 1];
  }

  async suggest(text, k) {
    const typed = splitTyped(text, this.tokenizer);
    const ids = typed.words.map((word) => this.ids.get(word) ?? this.ids.get(UNKNOWN));
    const read = ids.length ? ids : [this.ids.get(END_OF_LINE)];
    const found = async (wanted) => {
      const best = this.lazy ? await this.#choose(read, typed, wanted) : await this.#best(read, typed, wanted);
      const shown = best.map(({ id, probability }) => compose(this.vocabulary[id], probability, typed, this.casing, this.tokenizer));
      return distinct(shown, k);
    };
    const few = this.lazy ? await found(k) : [];
    return few.length < k ? found(k + SPARE) : few;
  }

  async #best(ids, typed, k) {
    return this.completion.best(await this.#read(ids), typed.prefix, k, typed.attaches);
  }

  /** The k best words after these ids, chosen by the graph: the last word is read again for every prefix. */
  async #choose(ids, typed, k) {
    await this.#read(ids.slice(0, -1));
    const allowed = this.completion.allowed(typed.prefix, typed.attaches);
    const outputs = await this.#run(this.#readings.at(-1)?.state ?? this.#initialState(), ids.at(-1), k, allowed, [
      "top_words",
      "top_probabilities",
    ]);
    const probabilities = outputs.top_probabilities.data;
    return Array.from(outputs.top_words.data, (id, place) => ({ id: Number(id), probability: probabilities[place] }));
  }

  /** Time some queries, to have a figure right away; the first two are warm-up. */
  async measure() {
    if (this.times.length) return;
    for (let query = 0; query < TIMED + 2; query += 1) {
      await this.#step(this.#initialState(), query % this.vocabulary.length);
    }
    this.times.splice(0, 2);
  }

  /** log p of every next word after these ids, unless the output layer is lazy; earlier readings are kept. */
  async #read(ids) {
    let known = 0;
    while (known < ids.length && this.#readings[known]?.id === ids[known]) known += 1;
    if (!this.lazy && known === ids.length && !this.#readings[known - 1].logProbabilities) known -= 1;
    this.#readings.length = Math.min(this.#readings.length, known);
    for (const id of ids.slice(known)) {
      const state = this.#readings.at(-1)?.state ?? this.#initialState();
      this.#readings.push({ id, ...(await this.#step(state, id)) });
      const forgotten = this.#readings.at(-1 - REMEMBERED);
      if (forgotten) forgotten.logProbabilities = null;
    }
    return this.#readings.at(-1)?.logProbabilities;
  }

  #initialState() {
    return this.parts.map(({ shape }) => {
      const size = shape.reduce((product, length) => product * length, 1);
      return new runtime.Tensor("float32", new Float32Array(size), shape);
    });
  }

  async #step(state, id) {
    const states = this.parts.map(({ output }) => output);
    const outputs = await this.#run(state, id, 1, this.everything, this.lazy ? states : ["log_probabilities", ...states]);
    return { state: states.map((name) => outputs[name]), logProbabilities: outputs.log_probabilities?.data };
  }

  async #run(state, id, k, allowed, wanted) {
    const number = (value) => new runtime.Tensor("int64", BigInt64Array.of(BigInt(value)), [1]);
    const feeds = { token: number(id), k: number(k), allowed: new runtime.Tensor("uint8", allowed, [allowed.length]) };
    this.parts.forEach(({ input }, place) => (feeds[input] = state[place]));
    const start = performance.now();
    const outputs = await this.session.run(feeds, wanted);
    this.times = [...this.times.slice(1 - TIMED - 2), performance.now() - start];
    return outputs;
  }
}
