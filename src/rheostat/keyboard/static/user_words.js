// Learned words, in this browser's own storage or on the server: rheostat/words/user_words.py.

import { DOUBLING_SECONDS, LONGEST_USER_WORD, MOST_USER_WORDS } from "./tables.js";
import { matchingForm } from "./writing.js";

const KEY = "words";

function scored(entry) {
  return { ...entry, score: Math.log2(1 + entry.count) + entry.last_used / DOUBLING_SECONDS };
}

/** The best words that begin with a prefix, with their scores; with an empty prefix, the best of all words. */
export function bestUserWords(words, prefix, limit) {
  const form = matchingForm(prefix);
  const found = words.filter(({ word }) => matchingForm(word).startsWith(form)).map(scored);
  return found.sort((one, other) => other.score - one.score || (one.word < other.word ? -1 : 1)).slice(0, limit);
}

/** Words in this browser's storage. They are never sent anywhere. */
export class StoredWords {
  #storage;

  constructor(storage) {
    this.#storage = storage;
  }

  async list() {
    try {
      const found = JSON.parse(this.#storage.getItem(KEY) ?? "[]");
      return Array.isArray(found) ? found.filter(isEntry) : [];
    } catch {
      return []; // no storage, or not ours
    }
  }

  async learn(word) {
    if (!word || [...word].length > LONGEST_USER_WORD || /\s/u.test(word)) throw new Error("Only single words can be learned.");
    const words = await this.list();
    const before = words.find((entry) => entry.word === word);
    const learned = { word, count: (before?.count ?? 0) + 1, last_used: Date.now() / 1000 };
    const others = words.filter((entry) => entry.word !== word);
    others.sort((one, other) => other.last_used - one.last_used).length = Math.min(others.length, MOST_USER_WORDS - 1);
    return this.#store([learned, ...others]);
  }

  async forget(word) {
    return this.#store((await this.list()).filter((entry) => entry.word !== word));
  }

  #store(words) {
    try {
      this.#storage.setItem(KEY, JSON.stringify(words));
    } catch {
      throw new Error("This browser does not store anything for this page.");
    }
    return words;
  }
}

function isEntry(entry) {
  return typeof entry?.word === "string" && Number.isFinite(entry.count) && Number.isFinite(entry.last_used);
}
