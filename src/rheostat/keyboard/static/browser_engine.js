// Suggestions from the model in this browser: a worker runs it, and this module talks to the worker.

/** The runtime or the model could not be loaded. */
export class NotLoaded extends Error {}

export class BrowserEngine {
  #worker = null;
  #waiting = new Map();
  #last = 0;

  /** Suggestions at a knob position; its model is fetched the first time. */
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

/** Ask the service worker to cache what a model needs, so it works offline. */
function keepForLater(addresses) {
  navigator.serviceWorker?.ready.then((registration) => registration.active?.postMessage({ keep: addresses }));
}
