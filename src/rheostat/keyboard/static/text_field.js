// The text field: the text before the cursor, what keys, suggestions and corrections do to it, undo, where fingers came down,
// and how many keystrokes it took.

import { CLOSING_SIGNS } from "./tables.js";
import { insertInto } from "./writing.js";

const JOINS = new Set([...".,!?;:"]); // signs that replace the space after a suggestion
const LOOK_BACK = 64; // characters: longer than any emoji
const MOST_UNDOS = 200;
const CLOSING = new Set(CLOSING_SIGNS);
const WORD_BEFORE = /[\p{L}\p{M}'’]$/u;
const STILL_NEAR = /^\S*\s*\S*\s*$/u; // one more word: what may follow a word that is corrected, or brought back

const endsWord = (character) => /^\s$/u.test(character) || CLOSING.has(character); // a word before it is finished
const graphemes = new Intl.Segmenter(undefined, { granularity: "grapheme" });

export class TextField extends EventTarget {
  #area;
  #keystrokes = 0;
  #ownSpace = -1; // the position after a space that came with a suggestion
  #now = { value: "", cursor: 0 };
  #past = []; // what undo goes back to: {value, cursor, typed?, after?, isCorrection?}
  #future = [];
  #inWord = false; // letters of one word are undone together
  #corrected = null; // the last word that was corrected automatically: {start, word, typed}
  #kept = new Set(); // words that were brought back, which are not corrected again
  #taps = []; // for each UTF-16 unit of the text, where the finger came down, or null
  #tapped = ""; // the text that they belong to
  #tap = null; // of the character that is being inserted

  /**
   * Fires "text" whenever the text or the cursor changes, and "ended" when a sign or a space ends a word: its detail is the
   * text up to the end of that word.
   */
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

  get after() {
    return this.#area.value.slice(this.#area.selectionEnd);
  }

  get value() {
    return this.#area.value;
  }

  /** What was typed before the suggestion that was just taken, or before the word was corrected; null if that is long ago. */
  get replaced() {
    return this.#justReplaced ?? (this.#isNear ? this.#corrected.typed : null);
  }

  get #justReplaced() {
    const last = this.#past.at(-1);
    return last?.typed !== undefined && last.after === this.#area.value ? last.typed : null;
  }

  /** Whether the word that was corrected last is still there, and is followed by at most one more word. */
  get #isNear() {
    if (!this.#corrected) return false;
    const { start, word } = this.#corrected;
    const rest = this.#area.value.slice(start);
    return rest.startsWith(word) && STILL_NEAR.test(rest.slice(word.length));
  }

  /** Where the finger came down for each of the last characters before the cursor; null if none is known. */
  tapsOf(count) {
    const places = [];
    let at = this.before.length;
    for (const character of [...this.before].slice(-count || Infinity).reverse()) places.unshift((at -= character.length));
    const taps = places.map((place) => this.#taps[place] ?? null);
    return taps.some(Boolean) ? taps : null;
  }

  /** tap: where the finger came down, if that is known. */
  insert(character, tap = null) {
    this.#keystrokes += 1;
    this.#tap = tap;
    this.#put(character);
    this.#tap = null;
  }

  /** Start over with an empty text. */
  clear() {
    this.#replace(0, this.#area.value.length, "");
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
    this.#replace(same, this.#area.selectionEnd, written.slice(same) + space, { typed });
    this.#inWord = false;
    this.#ownSpace = space ? this.#area.selectionStart : -1;
    this.dispatchEvent(new Event("text"));
  }

  /** Correct the last word of `text`, which the current text begins with, unless something changed there since. */
  correct(text, { word, replaces }) {
    const typed = [...text].slice(-replaces).join("");
    const { value, selectionStart } = this.#area;
    const rest = value.slice(text.length);
    const isSame = value.startsWith(text) && endsWord(rest[0] ?? "") && selectionStart > text.length;
    if (!isSame || !STILL_NEAR.test(rest) || this.#kept.has(typed.toLowerCase())) return false;
    const start = text.length - typed.length;
    this.#corrected = { start, word, typed };
    this.#exchange(start, text.length, word, { typed, isCorrection: true });
    return true;
  }

  /** Bring back what `replaced` names. A word that comes back is not corrected again. */
  bringBack() {
    if (this.#justReplaced !== null) return this.undo();
    const { start, word, typed } = this.#corrected;
    this.#keep(typed);
    this.#exchange(start, start + word.length, typed);
  }

  #keep(typed) {
    this.#kept.add(typed.toLowerCase());
    this.#corrected = null;
  }

  /** Back to the text before the last word, deletion, suggestion or correction. */
  undo() {
    const { typed, isCorrection } = this.#past.at(-1) ?? {};
    if (isCorrection) this.#keep(typed);
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
    else this.#end(character);
  }

  #end(character) {
    const text = this.before.slice(0, -character.length);
    if (endsWord(character) && WORD_BEFORE.test(text)) this.dispatchEvent(new CustomEvent("ended", { detail: text }));
  }

  #replace(start, end, text, replaced = null) {
    this.#ownSpace = -1;
    this.#area.setRangeText(text, start, end, "end");
    this.#area.scrollTop = this.#area.scrollHeight;
    this.#note(!replaced && /^[\p{L}\p{M}'’]$/u.test(text), replaced);
    this.#changed();
  }

  /** Replace an earlier word; the cursor and the space of a suggestion stay where they are in the rest. */
  #exchange(start, end, word, replaced = null) {
    if (this.#ownSpace >= end) this.#ownSpace += word.length - (end - start);
    this.#area.setRangeText(word, start, end, "preserve");
    this.#note(false, replaced);
    this.#changed();
  }

  /**
   * Remember the text before a change; further letters of a word belong to the same change. replaced: {typed, isCorrection?},
   * for a suggestion or a correction.
   */
  #note(isLetter, replaced = null) {
    const value = this.#area.value;
    if (value === this.#now.value) return;
    if (!(isLetter && this.#inWord)) this.#past.push({ ...this.#now, ...(replaced && { ...replaced, after: value }) });
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
    if (event.inputType === "insertText") this.#end(event.data ?? "");
    else if (event.inputType === "insertLineBreak") this.#end("\n");
  }

  #changed() {
    if (!this.#area.value) this.#keystrokes = 0;
    this.#moveTaps();
    this.dispatchEvent(new Event("text"));
  }

  /** Keep taps beside their letters, wherever the text changed. */
  #moveTaps() {
    const [before, now] = [this.#tapped, this.#area.value];
    if (before === now) return;
    const most = Math.min(before.length, now.length);
    let start = 0;
    while (start < most && before[start] === now[start]) start += 1;
    let end = 0;
    while (end < most - start && before[before.length - 1 - end] === now[now.length - 1 - end]) end += 1;
    const added = Array.from({ length: now.length - start - end }, () => null);
    this.#taps = [...this.#taps.slice(0, start), ...added, ...this.#taps.slice(before.length - end)];
    this.#tapped = now;
    if (this.#tap) this.#taps[this.#area.selectionStart - 1] = this.#tap;
  }
}

/** What a reader sees as the last character: a whole emoji, a letter with its accents. */
function lastGrapheme(text) {
  let last = "";
  for (const { segment } of graphemes.segment(text.slice(-LOOK_BACK))) last = segment;
  return last;
}
