// The text field: the text before the cursor, what keys and suggestions do to it, undo, and how many keystrokes it took.

import { insertInto } from "./writing.js";

const JOINS = new Set([...".,!?;:"]); // signs that replace the space after a suggestion
const LOOK_BACK = 64; // characters: longer than any emoji
const MOST_UNDOS = 200;

const graphemes = new Intl.Segmenter(undefined, { granularity: "grapheme" });

export class TextField extends EventTarget {
  #area;
  #keystrokes = 0;
  #ownSpace = -1; // the position after a space that came with a suggestion
  #now = { value: "", cursor: 0 };
  #past = []; // what undo goes back to: {value, cursor, typed?}
  #future = [];
  #inWord = false; // letters of one word are undone together

  /** Fires "text" whenever the text or the cursor changes. */
  constructor(area) {
    super();
    this.#area = area;
    area.addEventListener("beforeinput", (event) => this.#beforeInput(event));
    area.addEventListener("input", (event) => this.#typed(event));
    area.addEventListener("keydown", (event) => this.#shortcut(event));
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

  /** What was typed before the suggestion that was just taken; null if something else happened since. */
  get replaced() {
    const last = this.#past.at(-1);
    return last?.typed !== undefined && last.after === this.#area.value ? last.typed : null;
  }

  insert(character) {
    this.#keystrokes += 1;
    this.#put(character);
  }

  deleteBackward() {
    const { selectionStart: start, selectionEnd: end, value } = this.#area;
    if (start === end && start === 0) return;
    this.#keystrokes += 1;
    this.#replace(start === end ? start - lastGrapheme(value.slice(0, start)).length : start, end, "");
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
    const typed = [...before].slice([...before].length - suggestion.replaces).join("");
    this.#replace(same, this.#area.selectionEnd, written.slice(same) + space);
    Object.assign(this.#past.at(-1) ?? {}, { typed, after: this.#area.value });
    this.#inWord = false;
    this.#ownSpace = space ? this.#area.selectionStart : -1;
    this.dispatchEvent(new Event("text"));
  }

  /** Back to the text before the last word, deletion or suggestion. */
  undo() {
    this.#restore(this.#past, this.#future);
  }

  redo() {
    this.#restore(this.#future, this.#past);
  }

  #restore(from, to) {
    const wanted = from.pop();
    if (!wanted) return;
    to.push({ value: this.#area.value, cursor: this.#area.selectionStart });
    this.#area.value = wanted.value;
    this.#area.setSelectionRange(wanted.cursor, wanted.cursor);
    this.#now = { value: wanted.value, cursor: wanted.cursor };
    this.#keystrokes += 1;
    this.#ownSpace = -1;
    this.#inWord = false;
    this.#changed();
  }

  #put(character) {
    const { selectionStart: start, selectionEnd: end, value } = this.#area;
    const follows = start === end && start === this.#ownSpace && value[start - 1] === " ";
    if (follows && character === " ") {
      this.#ownSpace = -1; // the space is there already
      this.#changed();
      return;
    }
    const movesSpace = follows && JOINS.has(character);
    if (movesSpace) this.#replace(start - 1, end, `${character} `);
    else this.#replace(start, end, character);
    if (movesSpace) this.#ownSpace = this.#area.selectionStart;
  }

  #replace(start, end, text) {
    this.#ownSpace = -1;
    this.#area.setRangeText(text, start, end, "end");
    this.#area.scrollTop = this.#area.scrollHeight;
    this.#note(/^[\p{L}\p{M}'’]$/u.test(text));
    this.#changed();
  }

  /** Remember the text before a change; further letters of a word belong to the same change. */
  #note(isLetter) {
    const value = this.#area.value;
    if (value === this.#now.value) return;
    if (!(isLetter && this.#inWord)) this.#past.push(this.#now);
    if (this.#past.length > MOST_UNDOS) this.#past.shift();
    this.#inWord = isLetter;
    this.#future.length = 0;
    this.#now = { value, cursor: this.#area.selectionStart };
  }

  #beforeInput(event) {
    if (event.inputType === "historyUndo" || event.inputType === "historyRedo") {
      event.preventDefault();
      if (event.inputType === "historyUndo") this.undo();
      else this.redo();
      return;
    }
    const isOurs = JOINS.has(event.data) || event.data === " ";
    if (event.inputType !== "insertText" || !isOurs || this.#area.selectionStart !== this.#ownSpace) return;
    event.preventDefault();
    this.insert(event.data);
  }

  #shortcut(event) {
    if (!(event.ctrlKey || event.metaKey) || event.altKey) return;
    const key = event.key.toLowerCase();
    if (key !== "z" && key !== "y") return;
    event.preventDefault();
    if (key === "y" || event.shiftKey) this.redo();
    else this.undo();
  }

  #typed(event) {
    const length = event.inputType === "insertText" ? [...(event.data ?? "")].length : 1;
    this.#keystrokes = this.#area.value ? this.#keystrokes + Math.max(1, length) : 0;
    if (event.inputType === "insertFromPaste" || event.inputType === "insertFromDrop") {
      this.#keystrokes = Math.max(this.#keystrokes, [...this.#area.value].length); // pasted text saves no keystrokes
    }
    this.#ownSpace = -1;
    this.#note(event.inputType === "insertText" && /^[\p{L}\p{M}'’]$/u.test(event.data ?? ""));
    this.#changed();
  }

  #changed() {
    if (!this.#area.value) this.#keystrokes = 0;
    this.dispatchEvent(new Event("text"));
  }
}

/** What a reader sees as the last character: a whole emoji, a letter with its accents. */
function lastGrapheme(text) {
  let last = "";
  for (const { segment } of graphemes.segment(text.slice(-LOOK_BACK))) last = segment;
  return last;
}
