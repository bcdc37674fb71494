// Suggestions from the model in this browser: a worker runs it, and this module talks to the worker.

import { StoredWords } from "./user_words.js";

/** The core or the model could not be loaded. */
export class NotLoaded extends Error {}

export class BrowserEngine {
  #worker = null;
  #waiting = new Map();
  #last = 0;
  words = new StoredWords(storage());

  /** Suggestions at a knob position; the model is fetched the first time. */
  async suggest(asked, signal) {
    return this.#ask({ kind: "suggest", ...(await this.#complete(asked)) }, signal);
  }

  /** What the last word of a text may have been meant to be, now that it is finished. */
  async correct(asked) {
    return this.#ask({ kind: "correct", ...(await this.#complete(asked)) });
  }

  async #complete({ knob, ...asked }) {
    return { ...asked, percent: Math.floor(knob * 100 + 1e-6), userWords: await this.words.list() };
  }

  /** Learning from what is written. Each promise resolves to {words, phrases}, what was learned so far, or to null if
   * nothing changed. */
  memory = {
    turn: (on, isPrivate, text) => this.#ask({ kind: "remember", on, isPrivate, text }),
    see: (text, accepted) => this.#ask({ kind: "see", text, accepted }),
    end: (text) => this.#ask({ kind: "end", text }),
    forget: (word) => this.#ask({ kind: "forget", word }),
    forgetLastHour: () => this.#ask({ kind: "forget", lastHour: true }),
    clear: () => this.#ask({ kind: "forget", everything: true }),
    export: () => this.#ask({ kind: "export" }), // all counts, as JSON in the format of Python's file
  };

  /** The time of a query at some positions, in ms by percent. */
  async times(percents) {
    return (await this.#ask({ kind: "times", percents })).times_ms;
  }

  #ask(message, signal) {
    this.#worker ??= this.#start();
    const id = ++this.#last;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      signal?.addEventListener("abort", () => this.#settle(id, "reject", signal.reason));
      this.#worker.postMessage({ id, ...message });
    });
  }

  #start() {
    const worker = new Worker("engine_worker.js", { type: "module" });
    worker.addEventListener("message", ({ data }) => {
      if (data.error) this.#settle(data.id, "reject", new NotLoaded(data.error));
      else this.#settle(data.id, "resolve", data.answer);
    });
    worker.addEventListener("error", () => {
      for (const id of [...this.#waiting.keys()]) {
        this.#settle(id, "reject", new NotLoaded("The model could not be started in this browser."));
      }
      worker.terminate();
      this.#worker = null;
    });
    return worker;
  }

  #settle(id, how, value) {
    this.#waiting.get(id)?.[how](value);
    this.#waiting.delete(id);
  }
}

/** The browser's storage; null if it is switched off. */
function storage() {
  try {
    return localStorage;
  } catch {
    return null;
  }
}
