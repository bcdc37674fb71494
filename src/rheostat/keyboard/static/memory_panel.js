// The memory on the page: its switches, the list of what was learned, export, and forgetting. The engine keeps the counts.

import { makeItem } from "./figures.js";

const NOTHING = { words: 0, phrases: [] };
const EXPORTED = "rheostat-memory.json"; // the name of the file
const KEPT_MS = 60_000; // by then the browser has saved it
const OFF = "Off: nothing is learned from what you write.";
const ON =
  "Counts of words and of phrases up to three words, kept in this browser. Words count if you took them from the suggestions or left them unchanged.";
const PRIVATE = "This text is private: nothing is learned from it.";

export class MemoryPanel extends EventTarget {
  #find;
  #memory;
  #text;
  #isStarted = false;

  /** find(id): an element of the page. memory: of the engine in this browser. text(): the current text of the field. */
  constructor(find, memory, text) {
    super();
    this.#find = find;
    this.#memory = memory;
    this.#text = text;
    find("remember").addEventListener("change", () => this.#switch());
    find("private").addEventListener("change", () => this.#switch());
    find("forget-hour").addEventListener("click", () => this.#forget(memory.forgetLastHour(), "Forgot the last hour."));
    find("forget-all").addEventListener("click", () => this.#forget(memory.clear(), "Forgot everything."));
    find("export-memory").addEventListener("click", () => this.#export());
    find("finish").addEventListener("click", () => this.dispatchEvent(new Event("finish")));
    this.#show(NOTHING);
  }

  get isOn() {
    return this.#find("remember").checked;
  }

  /** Start as it was left, once; off unless it was switched on. */
  async start(isOn) {
    if (this.#isStarted) return;
    this.#isStarted = true;
    this.#find("remember").checked = isOn;
    if (isOn) await this.#turn();
  }

  /** The text changed. accepted: its last word was taken from the suggestions. */
  async see(text, accepted) {
    if (this.isOn) await this.#take(this.#memory.see(text, accepted));
  }

  /** The text was sent, so all of it was meant. */
  async end(text) {
    if (this.isOn) await this.#take(this.#memory.end(text));
  }

  async #switch() {
    this.#isStarted = true; // how it was left counts only until somebody switches it
    this.dispatchEvent(new Event("switch")); // before the engine has answered: the page may be closed, or opened in another tab
    await this.#turn();
    this.dispatchEvent(new Event("change"));
  }

  #turn() {
    return this.#take(this.#memory.turn(this.isOn, this.#find("private").checked, this.#text()));
  }

  async #take(answer) {
    try {
      const learned = await answer;
      if (learned) this.#show(learned);
    } catch (error) {
      this.#find("remember").checked = false;
      this.#show(NOTHING);
      this.dispatchEvent(new CustomEvent("problem", { detail: error.message }));
    }
  }

  async #forget(answer, message) {
    await this.#take(answer);
    this.#find("memory").querySelector("summary").focus(); // the button may be gone
    this.dispatchEvent(new CustomEvent("forgotten", { detail: message }));
  }

  /** All counts as a file, which Python reads too. */
  async #export() {
    try {
      const file = new Blob([await this.#memory.export()], { type: "application/json" });
      const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(file), download: EXPORTED });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), KEPT_MS);
    } catch (error) {
      this.dispatchEvent(new CustomEvent("problem", { detail: error.message }));
    }
  }

  #show({ words, phrases }) {
    this.#find("memory-count").textContent = words;
    this.#find("memory-note").textContent = !this.isOn ? OFF : this.#find("private").checked ? PRIVATE : ON;
    for (const id of ["private-label", "forgetting", "finish"]) this.#find(id).hidden = !this.isOn;
    this.#find("memory-list").replaceChildren(...phrases.map(([phrase, count]) => this.#item(phrase, count)));
  }

  /** A phrase and how often it was written; a single word can be forgotten, with every phrase that contains it. */
  #item(phrase, count) {
    const often = count >= 9.95 ? count.toFixed(0) : count.toFixed(1).replace(".0", "");
    const forget = () => this.#forget(this.#memory.forget(phrase), `Forgot ${phrase}.`);
    return makeItem(phrase.replaceAll("<eos>", "¶"), phrase.includes(" ") ? null : forget, often);
  }
}
