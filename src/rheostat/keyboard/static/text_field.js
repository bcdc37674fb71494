// The text field: the text before the cursor, what keys and suggestions do to it, and how many keystrokes it took.

import { insertInto } from "./writing.js";

const JOINS = new Set([...".,!?;:"]); // signs that replace the space after a suggestion

export class TextField extends EventTarget {
  #area;
  #keystrokes = 0;
  #ownSpace = -1; // the position after a space that came with a suggestion

  /** Fires "text" whenever the text or the cursor changes. */
  constructor(area) {
    super();
    this.#area = area;
    area.addEventListener("beforeinput", (event) => this.#beforeInput(event));
    area.addEventListener("input", (event) => this.#typed(event));
    document.addEventListener("selectionchange", () => {
      if (document.activeElement === area) this.#changed();
    });
  }

  get before() {
    return this.#area.value.slice(0, this.#area.selectionStart);
  }

  /** {needed, typed}: keystrokes that the text needs without suggestions, and those that were typed. */
  get keystrokes() {
    return { needed: [...this.#area.value].length, typed: this.#keystrokes };
  }

  insert(character) {
    this.#keystrokes += 1;
    this.#put(character);
  }

  deleteBackward() {
    const { selectionStart: start, selectionEnd: end, value } = this.#area;
    if (start === end && start === 0) return;
    this.#keystrokes += 1;
    const last = [...value.slice(0, start)].at(-1) ?? "";
    this.#replace(start === end ? start - last.length : start, end, "");
  }

  /** Insert a suggestion, with a space after it. */
  take(suggestion) {
    const before = this.before;
    const after = this.#area.value.slice(this.#area.selectionEnd);
    const written = insertInto(before, suggestion);
    let same = 0;
    while (same < before.length && before[same] === written[same]) same += 1;
    this.#keystrokes += 1;
    const space = /^\s/.test(after) ? "" : " ";
    this.#replace(same, this.#area.selectionEnd, written.slice(same) + space);
    this.#ownSpace = space ? this.#area.selectionStart : -1;
  }

  #put(character) {
    const { selectionStart: start, selectionEnd: end, value } = this.#area;
    const movesSpace = start === end && start === this.#ownSpace && JOINS.has(character) && value[start - 1] === " ";
    if (movesSpace) this.#replace(start - 1, end, `${character} `);
    else this.#replace(start, end, character);
    if (movesSpace) this.#ownSpace = this.#area.selectionStart;
  }

  #replace(start, end, text) {
    this.#ownSpace = -1;
    this.#area.setRangeText(text, start, end, "end");
    this.#area.scrollTop = this.#area.scrollHeight;
    this.#changed();
  }

  #beforeInput(event) {
    if (event.inputType !== "insertText" || !JOINS.has(event.data) || this.#area.selectionStart !== this.#ownSpace) return;
    event.preventDefault();
    this.insert(event.data);
  }

  #typed(event) {
    const length = event.inputType === "insertText" ? [...(event.data ?? "")].length : 1;
    this.#keystrokes = this.#area.value ? this.#keystrokes + Math.max(1, length) : 0;
    if (event.inputType === "insertFromPaste" || event.inputType === "insertFromDrop") {
      this.#keystrokes = Math.max(this.#keystrokes, [...this.#area.value].length); // pasted text saves no keystrokes
    }
    this.#ownSpace = -1;
    this.#changed();
  }

  #changed() {
    if (!this.#area.value) this.#keystrokes = 0;
    this.dispatchEvent(new Event("text"));
  }
}
