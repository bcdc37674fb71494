// Suggestions for a text from a model that the core has open: the part of rheostat.runtime.predictor that a browser needs.
//
// `suggestions` is the one place that turns a text into suggestions. Each has a `kind`: "completion" of what was typed, a
// "next" word, or a "correction" of what was typed.

import { Completion } from "./completion.js";
import { REMEMBERED, SPARE } from "./tables.js";
import { bestUserWords } from "./user_words.js";
import { compose, distinct, splitTyped } from "./writing.js";

const TIMED_MS = 1; // of queries in a row: long for a browser's clock, short for the system's scheduler
const TEXTS_KEPT = 4; // positions whose readings of a text are kept, for a knob that goes back and forth

export class Typist {
  #model;
  #facts;
  #positions; // percent -> {percent, point, flops, …}
  #words;
  #completion;
  #casing;
  #masks = new Map();
  #readings = new Map(); // percent -> after each word of the text last read: {id, state, answer}

  /** model: of rheostat.js. facts: of model.json. */
  constructor(model, facts) {
    const { casing, kinds, positions } = facts.browser;
    this.#model = model;
    this.#facts = facts;
    this.#positions = new Map(positions.map((position) => [position.percent, position]));
    this.#words = Array.from({ length: model.vocabularySize }, (_, id) => model.word(id));
    this.#completion = new Completion(this.#words, Uint8Array.from(kinds, Number));
    this.#casing = new Map(casing.map((spelling) => [spelling.toLowerCase(), spelling]));
  }

  /** What the server answers to the same request. userWords: the words that were taught. */
  answer({ text, percent, k, userWords = [] }) {
    const position = this.#positions.get(percent) ?? this.#positions.get(Math.min(...this.#positions.keys()));
    const start = performance.now();
    const typed = splitTyped(text, this.#facts.tokenizer);
    const suggestions = this.suggestions(typed, position.percent, k, userWords);
    const { percent: at, widths, ...described } = position;
    return {
      suggestions,
      unknown_word: this.#unknownWord(typed, userWords),
      answer_ms: performance.now() - start,
      knob: at / 100,
      ...described,
    };
  }

  suggestions(typed, percent, k, userWords) {
    const reading = this.#read(typed.words, percent);
    const kind = typed.prefix ? "completion" : "next";
    const lazy = this.#facts.shape.softmax_splits.length > 0;
    const found = (spare) => {
      const shown = this.#best(reading, typed, k + spare).map(({ id, logProbability }) =>
        compose(this.#words[id], Math.exp(logProbability), typed, this.#casing, this.#facts.tokenizer),
      );
      return distinct(shown, k + spare);
    };
    let best = found(lazy ? 0 : SPARE);
    if (lazy && best.length < k) best = found(SPARE);
    return distinct([...best, ...this.#taught(reading, typed, k, userWords)], k).map((one) => ({ kind, ...one }));
  }

  /** The time of a query at a position, from a word to the three best after it; several in a row, since clocks are rounded. */
  queryMs(percent) {
    const model = this.#model;
    const position = this.#position(percent);
    let state = model.start();
    let queries = 0;
    let elapsed = 0;
    const start = performance.now();
    while (elapsed < TIMED_MS) {
      state = model.step(position, state, queries % model.vocabularySize);
      model.best(model.predict(position, state), 3);
      queries += 1;
      elapsed = performance.now() - start;
    }
    return elapsed / queries;
  }

  #best(reading, typed, k) {
    if (typed.prefix) {
      return this.#model.best(reading.answer, k, { candidates: this.#completion.withPrefix(typed.prefix, typed.attaches) });
    }
    return this.#model.best(reading.answer, k, { mask: this.#mask(typed.attaches) });
  }

  #mask(attaches) {
    if (!this.#masks.has(attaches)) this.#masks.set(attaches, this.#completion.allowed("", attaches));
    return this.#masks.get(attaches);
  }

  /** The user's own words: the best is as probable as an unknown word, older and rarer ones less. */
  #taught(reading, typed, k, userWords) {
    if (typed.attaches && typed.prefix) return [];
    const words = bestUserWords(userWords, typed.prefix, k);
    if (!words.length) return [];
    const [{ logProbability }] = this.#model.best(reading.answer, 1, { candidates: [this.#model.unknownId] });
    const replaces = [...typed.prefix].length;
    return words.map(({ word, score }) => ({
      word,
      probability: Math.exp(logProbability) * 2 ** (score - words[0].score),
      source: "user",
      replaces,
    }));
  }

  #unknownWord({ word, prefix, words }, userWords) {
    const isNew = word && !prefix && this.#model.find(words.at(-1)) < 0;
    return isNew && !userWords.some((taught) => taught.word === word) ? word : null;
  }

  #position(percent) {
    const { widths, cost } = this.#positions.get(percent);
    const isOnPath = percent / 100 >= this.#facts.browser.path_down_to;
    return isOnPath ? this.#model.position(percent / 100) : this.#model.positionOf(widths, cost);
  }

  /** The reading after these words at a position. States of earlier words are kept; those of two positions never mix. */
  #read(words, percent) {
    const model = this.#model;
    const ids = words.map((word) => model.find(word)).map((id) => (id < 0 ? model.unknownId : id));
    if (!ids.length) ids.push(model.endId);
    const readings = this.#readings.get(percent) ?? [];
    this.#readings.delete(percent);
    this.#readings.set(percent, readings);
    if (this.#readings.size > TEXTS_KEPT) this.#readings.delete(this.#readings.keys().next().value);
    let known = 0;
    while (known < ids.length && readings[known]?.id === ids[known]) known += 1;
    readings.length = known;
    const position = this.#position(percent);
    for (const id of ids.slice(known)) {
      readings.push({ id, state: model.step(position, readings.at(-1)?.state ?? model.start(), id), answer: null });
      const forgotten = readings.at(-1 - REMEMBERED);
      if (forgotten) forgotten.answer = null;
    }
    const last = readings.at(-1);
    last.answer ??= model.predict(position, last.state);
    return last;
  }
}
