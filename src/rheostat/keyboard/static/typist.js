// Suggestions for a text from a model that the core has open: the part of rheostat.runtime.predictor that a browser needs.
//
// `complete` and `correct` return what the methods of that name return in Python. Each suggestion has a `kind`:
// "completion" of what was typed, a "correction" of it, or what was "typed".

import { Completion } from "./completion.js";
import { KnownWords } from "./known_words.js";
import { canExplain, composeMeant, findHalves, isInflected, priceOfNewWord } from "./slips.js";
import {
  BEST_PAIR, CACHE_DEFAULTS, DEFAULT_LAYOUT, FIRSTS, KEY_LAYOUTS, LETTER_PRICES, MAX_EXPLAINED, NEW_WORD_COUNT, PAIRS, PRICES, REACH, REMEMBERED, RIVALS,
  SHORTEST_PAIR, SPARE, SPECIAL_TOKENS, WHOLE,
} from "./tables.js";
import { bestUserWords } from "./user_words.js";
import { compose, distinct, matchingForm, splitTyped } from "./writing.js";

const TIMED_MS = 1; // of queries in a row: long for a browser's clock, short for the system's scheduler
const TEXTS_KEPT = 4; // positions whose readings of a text are kept, for a knob that goes back and forth
const HAS_KEYS = /^[\x00-\x7f\xdf-\xff]*$/; // letters that the core takes as one each
const IS_LATIN = /^[\x00-\xff]*$/;

export class Typist {
  #model;
  #facts;
  #positions; // percent -> {percent, point, flops, …}
  #words;
  #kinds; // of the words: WHOLE, PART or 0
  #misspelt; // ids of words that nobody means to write
  #known; // correct words that are not in the vocabulary
  #completion;
  #casing;
  #masks = new Map();
  #readings = new Map(); // percent and cache -> after each word of the text last read: {id, state, cache, answer}
  #channels = new Map(); // layout -> its keys and prices in the core
  #hasTree = false;
  #withApostrophe = new Map(); // letters of a word without its apostrophe -> its id
  #mixed = null; // {reading, version, scores, fresh, extra, single}: the last answer with the memory's share

  /** What the user's writing has taught (memory.js); null while it is off. */
  memory = null;

  /** model: of rheostat.js. facts: of model.json. */
  constructor(model, facts) {
    const { casing, kinds, known, misspelt, positions } = facts.browser;
    this.#model = model;
    this.#facts = facts;
    this.#positions = new Map(positions.map((position) => [position.percent, position]));
    this.#words = Array.from({ length: model.vocabularySize }, (_, id) => model.word(id));
    this.#kinds = Uint8Array.from(kinds, Number);
    this.#misspelt = new Set(misspelt);
    this.#known = new KnownWords(known);
    this.#completion = new Completion(this.#words, this.#kinds);
    this.#casing = new Map(casing.map((spelling) => [spelling.toLowerCase(), spelling]));
  }

  /** What the server answers to the same request. asked: {text, percent, k, userWords?, taps?, layout?, cache?}. */
  answer(asked) {
    const start = performance.now();
    const at = this.#asked(asked);
    const suggestions = this.#complete(at);
    const { percent, widths, ...described } = this.#positions.get(at.percent);
    return {
      suggestions,
      unknown_word: this.#unknownWord(at),
      answer_ms: performance.now() - start,
      knob: percent / 100,
      ...described,
    };
  }

  /** The best words for the text before the cursor. */
  complete(asked) {
    return this.#complete(this.#asked(asked));
  }

  /** What the last word of a text may have been meant to be, now that it is finished. */
  correct(asked) {
    const at = this.#asked(asked);
    const { prefix, attaches } = at.typed;
    if (!prefix) return [];
    if (attaches || !canExplain(matchingForm(prefix)) || this.#isOwn(at)) {
      const replaces = [...prefix].length;
      return [{ word: prefix, probability: 1, source: "model", replaces, kind: "typed", confidence: 1, finished: true }];
    }
    return this.#explain(at, true);
  }

  #asked({ text, percent, k, userWords = [], taps = null, layout = DEFAULT_LAYOUT, cache = false }) {
    const typed = splitTyped(text, this.#facts.tokenizer);
    const known = this.#positions.has(percent) ? percent : Math.min(...this.#positions.keys());
    const before = text.slice(0, text.length - typed.prefix.length);
    return { typed, before, percent: known, k, userWords, taps: usable(taps, typed.prefix, layout), layout, cache: cache && !this.#isLazy };
  }

  get #isLazy() {
    return this.#facts.shape.softmax_splits.length > 0;
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

  // --- letters as they were typed ---

  #complete(at) {
    const { prefix, attaches } = at.typed;
    return prefix && !attaches && canExplain(matchingForm(prefix)) ? this.#explain(at, false) : this.#suggest(at);
  }

  #suggest(at) {
    const { typed, k } = at;
    const reading = this.#read(typed.words, at);
    const mixed = this.#mix(reading, typed.words);
    if (mixed) return this.#remembered(mixed, reading, at);
    const found = (spare) => distinct(this.#shown(this.#best(reading, typed, k + spare), typed), k + spare);
    let best = found(this.#isLazy ? 0 : SPARE);
    if (this.#isLazy && best.length < k) best = found(SPARE);
    return distinct([...best, ...this.#taught(reading, at)], k);
  }

  #shown(best, typed) {
    const { tokenizer } = this.#facts;
    return best.map(({ id, logProbability }) => compose(this.#words[id], Math.exp(logProbability), typed, this.#casing, tokenizer));
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
  #taught(reading, { typed, k, userWords }) {
    if (typed.attaches && typed.prefix) return [];
    const words = bestUserWords(userWords, typed.prefix, k);
    if (!words.length) return [];
    const [{ logProbability }] = this.#model.best(reading.answer, 1, { candidates: [this.#model.unknownId] });
    return words.map(({ word, score }) => own(word, Math.exp(logProbability) * 2 ** (score - words[0].score), typed.prefix));
  }

  #unknownWord({ typed: { word, prefix, words }, userWords }) {
    const isNew = word && !prefix && this.#model.find(words.at(-1)) < 0;
    return isNew && !userWords.some((taught) => taught.word === word) ? word : null;
  }

  // --- slips ---

  /** The words that best explain what was typed, with what was typed among them. */
  #explain(at, finished) {
    const { typed, before, k, taps, layout } = at;
    const model = this.#model;
    this.#openTree();
    const channel = this.#channel(layout);
    const reading = this.#read(typed.words, at);
    const mixed = this.#mix(reading, typed.words);
    const word = this.#begin(reading, mixed, at);
    const form = matchingForm(typed.prefix);
    const spare = this.#facts.tokenizer === "wikitext" ? SPARE : 1;
    const wanted = Math.min(MAX_EXPLAINED, Math.max(k + spare, finished ? RIVALS : 0));
    const slipped = finished && this.#place(form) >= 0 ? PRICES.real_word : 0;
    const found = model.explain(word, channel, form, wanted, { whole: finished, taps }).map(({ id, logProbability, cost }) => {
      // A tap nearer to another key makes that key's letter free, but it is not what was typed.
      const isSlip = cost > 0 || (taps !== null && !matchingForm(this.#words[id]).startsWith(form));
      return { word: this.#words[id], p: Math.exp(logProbability - cost - (isSlip ? slipped : 0)), isSlip };
    });
    const literal = this.#literal(word, form, found, mixed);
    const top = Math.max(found[0]?.p ?? 0, literal?.p ?? 0);
    if ([...form].length >= SHORTEST_PAIR && top < BEST_PAIR) {
      const likely = this.#likelyPairs(word, form, top, channel, at, finished);
      if (likely.length) found.push(...this.#pairs(likely, channel, at, finished));
    }
    const remembered = mixed && !finished ? newWords(mixed, typed.prefix, k).filter((one) => one.word !== form) : [];
    const own = finished ? [] : [...this.#taught(reading, at), ...remembered];
    return composeMeant(found, literal, typed, this.#casing, k, { tokenizer: this.#facts.tokenizer, finished, before, own });
  }

  #openTree() {
    if (this.#hasTree) return;
    const { forms, ids } = this.#completion.whole;
    this.#model.openTree(forms, ids);
    forms.forEach((form, place) => form.includes("'") && this.#withApostrophe.set(form.replaceAll("'", ""), ids[place]));
    this.#hasTree = true;
  }

  #channel(layout) {
    if (!this.#channels.has(layout)) this.#channels.set(layout, this.#model.setKeys(KEY_LAYOUTS[layout].keys, LETTER_PRICES));
    return this.#channels.get(layout);
  }

  /** With a cache, the core cannot tell clusters apart from answers: it gets log p of every word, as in Python. */
  #begin(reading, mixed, { cache }) {
    if (mixed) return this.#model.beginTyped(mixed, { logProbabilities: mixed.scores });
    if (cache) return this.#model.beginTyped(reading, { logProbabilities: this.#model.logProbabilities(reading.answer) });
    return this.#model.beginTyped(reading, { answer: reading.answer });
  }

  /** Whether this is a word that only the user can have meant: a taught one, or one that is never suggested. */
  #isOwn({ typed, userWords }) {
    const forms = [typed.prefix, typed.word].map(matchingForm);
    const id = this.#place(forms[0]);
    return (id >= 0 && this.#kinds[id] !== WHOLE) || userWords.some(({ word }) => forms.includes(matchingForm(word)));
  }

  #hasWord = (form) => this.#model.find(form) >= 0;

  /** Whether a word is correct, as far as is known: taught, of the vocabulary, one with an ending, or a known word. */
  isCorrect(word, userWords = []) {
    const form = matchingForm(word);
    if (SPECIAL_TOKENS.includes(word) || userWords.some((taught) => matchingForm(taught.word) === form)) return true;
    const id = this.#model.find(word);
    return id < 0 ? isInflected(form, this.#hasWord) || this.#known.has(form) : this.#kinds[id] !== 0;
  }

  /** The id of a word that the model knows; -1 for a misspelling, which counts as unknown. */
  #place(form) {
    const id = this.#model.find(form);
    return this.#misspelt.has(id) ? -1 : id;
  }

  /** What was typed, unless it is among the words already. */
  #literal(word, form, found, mixed) {
    if (found.some((one) => !one.isSlip && matchingForm(one.word) === form)) return null;
    const model = this.#model;
    const id = this.#place(form);
    if (id >= 0) return { word: form, p: Math.exp(model.typedLogProbability(word, id)), isSlip: false };
    const isKnown = model.find(form) < 0 && this.#known.has(form); // no misspelling is known
    const price = priceOfNewWord(form, this.#hasWord, isKnown);
    const isOften = (mixed?.single.get(form) ?? 0) >= NEW_WORD_COUNT;
    const remembered = isOften ? mixed.extra.get(form) : 0;
    return { word: form, p: Math.exp(model.typedLogProbability(word, model.unknownId) - price) + remembered, isSlip: false };
  }

  /** Pairs of words without the space between them that could be better than every single word; with a bound. */
  #likelyPairs(word, form, top, channel, { layout, taps }, finished) {
    const likely = [];
    for (const halves of findHalves(form, KEY_LAYOUTS[layout].above_space)) {
      const firsts = finished ? this.#slippedFirsts(word, halves, channel, taps) : this.#firsts(word, halves);
      for (const { id, logProbability, cost } of firsts) {
        const bound = logProbability - cost - halves.price;
        if (Math.exp(bound) > top) likely.push({ bound, ...halves, first: this.#words[id] });
      }
    }
    return likely.sort((one, other) => other.bound - one.bound).slice(0, PAIRS);
  }

  /** The words that the first half of a finished pair may be. This takes too long for every letter. */
  #slippedFirsts(word, { first }, channel, taps) {
    return this.#model.explain(word, channel, first, FIRSTS, { whole: true, taps: taps?.slice(0, first.length) ?? null });
  }

  /** The first half as it was typed, or without its apostrophe. */
  #firsts(word, { first }) {
    const id = this.#model.find(first);
    const firsts = id >= 0 && this.#kinds[id] === WHOLE ? [{ id, cost: 0 }] : [];
    if (this.#withApostrophe.has(first)) firsts.push({ id: this.#withApostrophe.get(first), cost: PRICES.missed_apostrophe });
    return firsts.map((one) => ({ ...one, logProbability: this.#model.typedLogProbability(word, one.id) }));
  }

  /** The best of these pairs, if any. */
  #pairs(likely, channel, at, finished) {
    let best = null;
    for (const { bound, first, second } of likely) {
      const words = [...at.typed.words, first];
      const reading = this.#read(words, at);
      const after = this.#begin(reading, this.#mix(reading, words), at);
      const taps = at.taps?.slice(-second.length) ?? null;
      for (const { id, logProbability, cost } of this.#model.explain(after, channel, second, 1, { whole: finished, taps })) {
        const p = Math.exp(bound + logProbability - cost);
        if (!best || p > best.p) best = { word: `${first} ${this.#words[id]}`, p, isSlip: true };
      }
    }
    return best ? [best] : [];
  }

  // --- the memory's share ---

  /** log p of every word with the memory's share, and the words that only the memory knows; null while it is off or empty. */
  #mix(reading, words) {
    const { memory } = this;
    if (!memory?.size) return null;
    const known = this.#mixed;
    if (known?.reading === reading && known.version === memory.version) return known;
    const { ofModel, extra, single } = memory.share(words.slice(-2));
    const scores = this.#model.logProbabilities(reading.answer);
    const less = Math.fround(Math.log(ofModel));
    for (let id = 0; id < scores.length; id += 1) scores[id] += less;
    const fresh = [];
    for (const [word, p] of extra) {
      const id = this.#model.find(word);
      if (id >= 0) scores[id] = logSum(scores[id], Math.log(p));
      else if (single.get(word) >= NEW_WORD_COUNT) fresh.push([word, p]);
    }
    this.#mixed = { reading, version: memory.version, scores, fresh, extra, single };
    return this.#mixed;
  }

  #remembered(mixed, reading, at) {
    const { typed, k } = at;
    const best = this.#completion.withPrefix(typed.prefix, typed.attaches)
      .map((id) => ({ id, logProbability: mixed.scores[id] }))
      .filter(({ logProbability }) => logProbability > -Infinity)
      .sort((one, other) => other.logProbability - one.logProbability || one.id - other.id);
    const found = distinct(this.#shown(best.slice(0, k + SPARE), typed), k + SPARE);
    const fresh = typed.attaches && typed.prefix ? [] : newWords(mixed, typed.prefix, k);
    return distinct([...found, ...fresh, ...this.#taught(reading, at)], k);
  }

  // --- reading ---

  #position(percent) {
    const { widths, cost } = this.#positions.get(percent);
    const isOnPath = percent / 100 >= this.#facts.browser.path_down_to;
    return isOnPath ? this.#model.position(percent / 100) : this.#model.positionOf(widths, cost);
  }

  /** The reading after these words at a position. States of earlier words are kept; those of two positions never mix. */
  #read(words, { percent, cache }) {
    const model = this.#model;
    const ids = words.map((word) => model.find(word)).map((id) => (id < 0 ? model.unknownId : id));
    if (!ids.length) ids.push(model.endId);
    const readings = this.#kept(`${percent} ${cache}`);
    let known = 0;
    while (known < ids.length && readings[known]?.id === ids[known]) known += 1;
    if (cache && known && known < ids.length && !readings[known - 1].cache) known = 0; // it was dropped
    readings.length = known;
    const position = this.#position(percent);
    for (const id of ids.slice(known)) {
      const before = readings.at(-1);
      const state = before?.state ?? model.start();
      const words = cache ? model.addToCache(position, before?.cache ?? model.startCache(CACHE_DEFAULTS.words), state, id) : null;
      readings.push({ id, state: model.step(position, state, id), cache: words, answer: null });
      const forgotten = readings.at(-1 - REMEMBERED);
      if (forgotten) forgotten.answer = forgotten.cache = null;
    }
    const last = readings.at(-1);
    if (last.answer === null && cache && last.cache === null) {
      readings.length = 0;
      return this.#read(words, { percent, cache });
    }
    last.answer ??= this.#predict(position, last);
    return last;
  }

  #predict(position, { state, cache }) {
    const answer = this.#model.predict(position, state);
    return cache ? this.#model.mixCache(position, cache, state, CACHE_DEFAULTS, answer) : answer;
  }

  /** The readings of a position, of which the last few are kept. */
  #kept(name) {
    const readings = this.#readings.get(name) ?? [];
    this.#readings.delete(name);
    this.#readings.set(name, readings);
    if (this.#readings.size > TEXTS_KEPT) this.#readings.delete(this.#readings.keys().next().value);
    return readings;
  }
}

/** Taps as the core takes them, one per letter; null if there are none, or a letter has no key on any layout. One that is far from
 * the key of its letter does not count. */
function usable(taps, prefix, layout) {
  const form = matchingForm(prefix);
  const fits = IS_LATIN.test(prefix) && HAS_KEYS.test(form) && form.length === prefix.length;
  if (!fits || taps?.length !== prefix.length) return null;
  const near = taps.map((tap, place) => {
    const key = tap && KEY_LAYOUTS[layout].keys.find(([letter]) => letter === form[place]);
    return key && Math.hypot(key[1] - tap[0], key[2] - tap[1]) < REACH ? tap : null;
  });
  return near.some(Boolean) ? near : null;
}

function own(word, probability, prefix) {
  const replaces = [...prefix].length;
  return { word, probability, source: "user", replaces, kind: "completion", confidence: 0, finished: false };
}

/** The words that only the memory knows. */
function newWords({ fresh }, prefix, k) {
  const form = matchingForm(prefix);
  const found = fresh.filter(([word]) => word.startsWith(form)).sort(([, one], [, other]) => other - one);
  return found.slice(0, k).map(([word, p]) => own(word, p, prefix));
}

/** log(e^a + e^b). */
function logSum(a, b) {
  const [high, low] = a > b ? [a, b] : [b, a];
  return high === -Infinity ? high : high + Math.log1p(Math.exp(low - high));
}
