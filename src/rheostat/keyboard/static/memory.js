// What one user's writing has taught: rheostat/words/memory.py, for a browser. The Python module is the definition and explains
// why; tests compare the counts. `watch.js` decides what was meant.
//
// Counts of phrases are kept in this browser's own storage (IndexedDB), in the format of Python's file. Nothing is sent.

import {
  BYTES_PER_MINUTE, BYTES_PER_PHRASE, END_OF_LINE, FLUSH_WORDS, HALF_LIFE_SECONDS, HALF_TRUSTED, LEAST_COUNT, LONGEST_PHRASE,
  MEMORY_BYTES, MOST_DOUBTFUL, RECENT_MINUTES, SETTLE_SECONDS, SHARES,
} from "./tables.js";
import { matchingForm } from "./writing.js";

const FORMAT = "rheostat-memory";
const VERSION = 1;
const utf8 = new TextEncoder();

/** One phrase: its count at a time, and what was added in the last hour, by the minute. */
class Count {
  constructor(count, time, recent = []) {
    this.count = count;
    this.time = time;
    this.recent = new Map(recent);
  }

  get added() {
    return [...this.recent.values()].reduce((sum, by) => sum + by, 0);
  }

  add(minute, by) {
    this.recent.set(minute, (this.recent.get(minute) ?? 0) + by);
  }

  at(now) {
    return this.count * 2 ** (Math.min(0, this.time - now) / HALF_LIFE_SECONDS) + this.added;
  }

  /** Decay the count to now, and add what is no longer recent. */
  settle(now) {
    const oldest = Math.floor(now / 60) - RECENT_MINUTES;
    let old = 0;
    for (const [minute, by] of this.recent) {
      if (minute >= oldest) continue;
      old += by;
      this.recent.delete(minute);
    }
    this.count = this.count * 2 ** (Math.min(0, this.time - now) / HALF_LIFE_SECONDS) + old;
    this.time = now;
  }
}

export class Memory {
  #counts = new Map(); // "see you soon" -> Count
  // Counts at the time of #settled, with what was learned since.
  #settled = 0;
  #following = new Map(); // "see you" -> word -> how often it followed
  #totals = new Map(); // "see you" -> how often
  #pending = new Map(); // phrase -> minute -> what was added since the last write
  #doubtful = new Set(); // the oldest first
  #learned = 0;
  #generation = 0; // how often something was forgotten, as far as this tab knows
  #store;
  #clock;
  #limit;

  /** Changes with every change of the counts. */
  version = 0;

  /** store: {read(), update(change), onForgotten, tell()}, or null for a memory that lasts as long as the page. clock: seconds since 1970. */
  constructor(store = null, { limit = MEMORY_BYTES, clock = () => Date.now() / 1000 } = {}) {
    this.#store = store;
    this.#limit = limit;
    this.#clock = clock;
  }

  /** Read what is stored, now and whenever another tab forgets something. */
  async open() {
    if (!this.#store) return this;
    this.#store.onForgotten = () => this.#readAgain();
    await this.#readAgain();
    return this;
  }

  async #readAgain() {
    const stored = await this.#store.read();
    this.#use(this.#withPending(stored));
    this.#generation = generationOf(stored);
  }

  get size() {
    return this.#counts.size;
  }

  // --- learning ---

  /** Note words that may be a slip. True if they were noted before: slips seldom repeat. */
  wasSeen(words) {
    const piece = words.join(" ");
    if (this.#doubtful.has(piece)) return true;
    this.#doubtful.add(piece);
    if (this.#doubtful.size > MOST_DOUBTFUL) this.#doubtful.delete(this.#doubtful.values().next().value);
    return false;
  }

  /** Count words in the order in which they were written. before: up to two words that precede them. */
  learn(words, before = []) {
    return this.#add(words, before, 1);
  }

  /** Take back what `learn` counted, because the words were changed or deleted later. */
  unlearn(words, before = []) {
    return this.#add(words, before, -1);
  }

  async #add(words, before, by) {
    const flow = [...before.slice(-(LONGEST_PHRASE - 1)), ...words];
    const now = this.#clock();
    const minute = Math.floor(now / 60);
    for (let place = flow.length - words.length; place < flow.length; place += 1) {
      if (!isWord(flow[place])) continue;
      for (let length = 1; length <= Math.min(LONGEST_PHRASE, place + 1); length += 1) {
        this.#count(flow.slice(place - length + 1, place + 1).join(" "), minute, by, now);
      }
    }
    this.#learned += words.length;
    this.version += 1;
    if (this.#learned >= FLUSH_WORDS) await this.flush();
  }

  #count(phrase, minute, by, now) {
    const pending = this.#pending.get(phrase) ?? new Map();
    this.#pending.set(phrase, pending.set(minute, (pending.get(minute) ?? 0) + by));
    if (!this.#counts.has(phrase)) this.#counts.set(phrase, new Count(0, now));
    this.#counts.get(phrase).add(minute, by);
    this.#note(phrase, by);
  }

  #note(phrase, by) {
    const [context, word] = splitPhrase(phrase);
    if (!this.#following.has(context)) this.#following.set(context, new Map());
    const following = this.#following.get(context);
    following.set(word, (following.get(word) ?? 0) + by);
    this.#totals.set(context, (this.#totals.get(context) ?? 0) + by);
  }

  /** Write what was learned since the last time. */
  async flush() {
    this.#learned = 0;
    if (this.#pending.size) await this.#change(() => {});
  }

  // --- reading ---

  /**
   * What the counts say about the word after these words: p = ofModel · p(model) + extra of the word. single: the counts of all
   * single words.
   */
  share(before) {
    const extra = new Map();
    if (this.#clock() - this.#settled > SETTLE_SECONDS) this.#use(this.#counts);
    if (!((this.#totals.get("") ?? 0) > 0)) return { ofModel: 1, extra, single: new Map() };
    let ofModel = 1;
    let parts = [];
    for (let length = 0; length < Math.min(LONGEST_PHRASE, before.length + 1); length += 1) {
      const context = before.slice(before.length - length).join(" ");
      const seen = this.#totals.get(context) ?? 0;
      if (!(seen > 0)) continue;
      const share = (SHARES[length] * seen) / (seen + HALF_TRUSTED[length]);
      parts = [...parts.map(([other, weight]) => [other, weight * (1 - share)]), [context, share / seen]];
      ofModel *= 1 - share;
    }
    for (const [context, weight] of parts) {
      for (const [word, count] of this.#following.get(context)) {
        if (count > 0) extra.set(word, (extra.get(word) ?? 0) + weight * count);
      }
    }
    return { ofModel, extra, single: this.#following.get("") };
  }

  /** How often a phrase was written, decayed. */
  count(phrase) {
    return this.#counts.get(phrase)?.at(this.#clock()) ?? 0;
  }

  /** All phrases with their counts, the most frequent first. */
  phrases() {
    const now = this.#clock();
    const found = [...this.#counts].map(([phrase, entry]) => [phrase, entry.at(now)]).filter(([, count]) => count > 0);
    return found.sort(([one, often], [other, rare]) => rare - often || (one < other ? -1 : 1));
  }

  // --- forgetting ---

  /** Forget a word and every phrase with it, in any spelling. */
  forget(word) {
    const form = anySpelling(word);
    return this.#remove((phrase) => phrase.split(" ").some((one) => anySpelling(one) === form));
  }

  /** Take back what was counted in the last hour. */
  forgetLastHour() {
    this.#doubtful.clear();
    return this.#change((counts) => counts.forEach((entry) => entry.recent.clear()), true);
  }

  /** Forget everything. */
  clear() {
    return this.#remove(() => true);
  }

  #remove(goes) {
    this.#doubtful.clear();
    return this.#change((counts) => {
      for (const phrase of [...counts.keys()]) if (goes(phrase)) counts.delete(phrase);
    }, true);
  }

  // --- storing ---

  /** All counts, in the format of Python's file. */
  toJSON() {
    return asFile(this.#counts, this.#generation);
  }

  /** What is stored, with what is pending. Nothing is, once another tab has forgotten something: it may have been that. */
  #withPending(stored) {
    const counts = parse(stored);
    if (generationOf(stored) !== this.#generation) {
      this.#pending = new Map();
      this.#doubtful.clear();
    }
    for (const [phrase, minutes] of this.#pending) {
      if (!counts.has(phrase)) counts.set(phrase, new Count(0, this.#clock()));
      for (const [minute, by] of minutes) counts.get(phrase).add(minute, by);
    }
    return counts;
  }

  /** Apply a change to the counts as they are stored now, with what is pending: another tab may have changed them. */
  async #change(change, forgets = false) {
    const apply = (counts) => {
      const now = this.#clock();
      counts.forEach((entry) => entry.settle(now));
      change(counts);
      this.#use(mostFrequent(counts, now, this.#limit));
      this.#pending = new Map();
    };
    if (!this.#store) {
      apply(this.#counts);
      this.#generation += Number(forgets);
      return;
    }
    await this.#store.update((stored) => {
      apply(this.#withPending(stored));
      this.#generation = generationOf(stored) + Number(forgets);
      return asFile(this.#counts, this.#generation);
    });
    if (forgets) this.#store.tell?.();
  }

  #use(counts) {
    const now = this.#clock();
    this.#settled = now;
    this.#counts = counts;
    this.#following = new Map();
    this.#totals = new Map();
    for (const [phrase, entry] of counts) this.#note(phrase, entry.at(now));
    this.version += 1;
  }
}

function splitPhrase(phrase) {
  const last = phrase.lastIndexOf(" ");
  return last < 0 ? ["", phrase] : [phrase.slice(0, last), phrase.slice(last + 1)];
}

/** The same for "don't" and "Don’t", and for "é" as one character and as two. */
function anySpelling(word) {
  return matchingForm(word).normalize("NFC");
}

function isWord(word) {
  return word !== END_OF_LINE && !word.startsWith("<") && /\p{L}/u.test(word);
}

/** The phrases that fit into the limit, rare and old ones dropped first. */
function mostFrequent(counts, now, limit) {
  const ranked = [...counts].map(([phrase, entry]) => ({ phrase, entry, words: phrase.split(" "), count: entry.at(now) }))
    .filter(({ count }) => count >= LEAST_COUNT)
    .sort((one, other) => other.count - one.count || one.words.length - other.words.length || compare(one.words, other.words));
  const kept = new Map();
  let used = 100;
  for (const { phrase, entry } of ranked) {
    used += utf8.encode(JSON.stringify(phrase)).length + BYTES_PER_PHRASE + BYTES_PER_MINUTE * entry.recent.size;
    if (used > limit) break;
    kept.set(phrase, entry);
  }
  return kept;
}

function compare(words, others) {
  const place = words.findIndex((word, at) => word !== others[at]);
  return place < 0 ? 0 : words[place] < others[place] ? -1 : 1;
}

function asFile(counts, generation) {
  const phrases = [...counts].map(([words, { count, time, recent }]) => ({
    words,
    count: Math.round(count * 1e4) / 1e4,
    time: Math.trunc(time),
    recent: [...recent].sort(([one], [other]) => one - other),
  }));
  return { format: FORMAT, format_version: VERSION, generation, phrases };
}

function generationOf(stored) {
  return stored?.generation ?? 0;
}

/** Stored counts; what is not in our format counts as nothing. */
function parse(stored) {
  if (stored?.format !== FORMAT || stored.format_version !== VERSION || !Array.isArray(stored.phrases)) return new Map();
  return new Map(stored.phrases.map(({ words, count, time, recent }) => [words, new Count(count, time, recent)]));
}

// --- the browser's storage ---

const DATABASE = "rheostat";
const TABLE = "memory";
const KEY = "phrases";

/** The memory's place in this browser. Every change reads and writes in one transaction, so tabs do not undo each other's. */
export class MemoryStore {
  #database = null;
  #tabs = new BroadcastChannel(DATABASE);

  /** Called when another tab has forgotten something. */
  set onForgotten(act) {
    this.#tabs.onmessage = act;
  }

  /** Tell the other tabs that something was forgotten. */
  tell() {
    this.#tabs.postMessage(null);
  }

  read() {
    return this.#run("readonly", (table, settle) => {
      table.get(KEY).onsuccess = ({ target }) => settle(target.result);
    });
  }

  update(change) {
    return this.#run("readwrite", (table) => {
      table.get(KEY).onsuccess = ({ target }) => table.put(change(target.result), KEY);
    });
  }

  async #run(mode, act) {
    this.#database ??= open();
    const transaction = (await this.#database).transaction(TABLE, mode);
    return new Promise((resolve, reject) => {
      let found;
      act(transaction.objectStore(TABLE), (value) => (found = value));
      transaction.oncomplete = () => resolve(found);
      transaction.onerror = transaction.onabort = () => reject(new Error("This browser does not store anything for this page."));
    });
  }
}

function open() {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(DATABASE, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(TABLE);
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(new Error("This browser does not store anything for this page."));
  });
}
