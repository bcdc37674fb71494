// Suggestions by the model in this very browser: a worker runs it, and this file talks to the worker.

/** The runtime or the model could not be loaded. */
export class NotLoaded extends Error {}

export class BrowserEngine {
  #worker = null;
  #waiting = new Map();
  #last = 0;

  /** Suggestions at a position of the knob; the first time there, its model is fetched. */
  async suggest(text, knob, k, signal) {
    const answer = await this.#ask({ kind: "suggest", text, percent: Math.floor(knob * 100 + 1e-6), k }, signal);
    if (answer.fetched) keepForLater(answer.fetched);
    return answer;
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

/** Ask the service worker to keep what a model needs, so that it works off line. */
function keepForLater(addresses) {
  navigator.serviceWorker?.ready.then((registration) => registration.active?.postMessage({ keep: addresses }));
}
