// Which parts of a text were meant, and may be learned: the `Watch` of rheostat/runtime/remembering.py, for a browser.

import {
  CLOSING_SIGNS, CORRECTED_AFTER, LEARN_AGAIN_AT, LEARN_AT, MOST_AT_ONCE, MOST_CORRECTED, PIECES_BEFORE, SETTLED,
} from "./tables.js";
import { SPACE } from "./vocabulary.js";
import { contextWords, insertInto } from "./writing.js";

const PIECE = new RegExp(`[^${SPACE}]+`, "gu");
const SPACE_AT_END = new RegExp(`[${SPACE}]$`, "u");

/** One text field: shows the memory what was meant in it. */
export class Watch {
  #memory;
  #tokenizer;
  #confirm;
  #isCorrect;
  #pieces = [];
  #written = new Set(); // in this field: moved or brought back, it is not pasted

  /** memory: null in a private field. confirm(text): the confidence that its last word is what was meant. isCorrect(word): whether
   * a word is correct, as far as that is known. */
  constructor(memory, tokenizer, confirm, isCorrect) {
    this.#memory = memory;
    this.#tokenizer = tokenizer;
    this.#confirm = confirm;
    this.#isCorrect = isCorrect;
  }

  /** Do not learn what is already in the text: it was written earlier, or in private. */
  skip(text) {
    this.#pieces = piecesOf(text).map((piece) => makePiece(piece, true));
  }

  /** Called with the current text. accepted: its last word was taken from the suggestions. */
  see(text, accepted = false) {
    if (!this.#memory) return;
    const pieces = piecesOf(text);
    const endsOpen = text !== "" && !SPACE_AT_END.test(text);
    const whole = pieces.length - (endsOpen && !accepted ? 1 : 0);
    const { start, stop } = this.#follow(pieces);
    const isPasted = pieces.slice(start, stop).filter((piece) => !this.#written.has(piece)).length > MOST_AT_ONCE;
    if (isPasted) for (const piece of this.#pieces.slice(start, stop - (accepted ? 1 : 0))) piece.decided = true;
    if (accepted && pieces.length) this.#pieces[(stop > start ? stop : pieces.length) - 1].accepted = true;
    const justEnded = Math.max(0, start - 1);
    for (const piece of this.#pieces.slice(justEnded, Math.max(justEnded, whole))) if (!piece.decided) this.#written.add(piece.text);
    const settled = pieces.length - SETTLED;
    this.#learn(start, (place) => place < whole && (place < settled || this.#pieces[place].accepted));
  }

  /** The text was sent as it is. Returns what was learned of each piece between spaces. */
  end(text) {
    if (this.#memory) this.#learn(this.#follow(piecesOf(text)).start, () => true);
    const learned = this.#pieces.map(({ words }) => words ?? []);
    this.#pieces = [];
    this.#written = new Set();
    return learned;
  }

  /** Take over the pieces of the text as it is now, and take back those that are gone. Returns where the new ones are. */
  #follow(pieces) {
    const known = this.#pieces;
    const shorter = Math.min(pieces.length, known.length);
    let start = 0;
    while (start < shorter && pieces[start] === known[start].text) start += 1;
    let after = 0;
    while (after < shorter - start && pieces.at(-1 - after) === known.at(-1 - after).text) after += 1;
    const stop = pieces.length - after;
    const made = pieces.slice(start, stop).map((piece) => makePiece(piece));
    for (const { words, before } of known.splice(start, known.length - after - start, ...made)) {
      if (words?.length && before) this.#memory.unlearn(words, before).catch(() => {}); // it stays in memory
    }
    return { start, stop };
  }

  /** Decide what is ready, and count it with the words before it. changed: the first place with another text. */
  #learn(changed, isReady) {
    let first = changed;
    for (const [place, piece] of this.#pieces.entries()) {
      if (!piece.decided && isReady(place)) {
        piece.words = this.#meant(place);
        piece.decided = true;
        first = Math.min(first, place);
      }
      if (!piece.words?.length || place < first) continue;
      const before = this.#before(place);
      if (piece.before?.join(" ") === before.join(" ")) continue;
      // Those before it were decided later, or changed.
      if (piece.before) this.#memory.unlearn(piece.words, piece.before).catch(() => {});
      this.#memory.learn(piece.words, before).catch(() => {});
      piece.before = before;
    }
  }

  /** The two words before a piece, as the model reads them; none that was not learned, and none before that. */
  #before(place) {
    let first = place;
    while (first > Math.max(0, place - PIECES_BEFORE) && this.#pieces[first - 1].words !== null) first -= 1;
    const text = this.#pieces.slice(first, place).map((piece) => piece.text).join(" ");
    return contextWords(text, this.#tokenizer).slice(first ? 1 : 0).slice(-2); // without the `<eos>` of a text's start
  }

  /** The words of a piece that are worth learning; null if it looks like a slip. */
  #meant(place) {
    const { text, accepted } = this.#pieces[place];
    const words = contextWords(text, this.#tokenizer).slice(1).filter((word) => /\p{L}/u.test(word));
    if (accepted || !words.length) return words;
    const characters = [...text];
    while (CLOSING_SIGNS.includes(characters.at(-1) ?? " ")) characters.pop();
    const sure = this.#confirm([...this.#pieces.slice(0, place).map((piece) => piece.text), characters.join("")].join(" "));
    const isName = /^\p{Uppercase}/u.test(text) && words.length === 1; // nobody types a capital by accident
    const isMeant = sure >= LEARN_AT && (isName || words.every(this.#isCorrect));
    return isMeant || (sure >= LEARN_AGAIN_AT && this.#memory.wasSeen(words)) ? words : null;
  }
}

/** Words that were corrected automatically, which nobody typed: they are as sure as the correction was. */
export class Corrections {
  #sure = new Map(); // the pieces before and the corrected one -> confidence

  /** The last word of this text is replaced by a suggestion; if it becomes two, both were corrected. */
  note(text, best) {
    const pieces = piecesOf(insertInto(text, best));
    const first = pieces.length - piecesOf(best.word).length;
    for (let length = pieces.length; length > first; length -= 1) this.#sure.set(corrected(pieces.slice(0, length)), best.confidence);
    while (this.#sure.size > MOST_CORRECTED) this.#sure.delete(this.#sure.keys().next().value);
  }

  /** How sure it is that the last word of a text was meant. sure: the same if it was typed as it is. */
  limit(text, sure) {
    return Math.min(sure, this.#sure.get(corrected(piecesOf(text))) ?? 1);
  }
}

function corrected(pieces) {
  return pieces.slice(-1 - CORRECTED_AFTER).join(" ");
}

/** What stands between spaces. words: those worth learning; null if it is a slip, was pasted, or is not decided. before: the words
 * that it was learned after; null if it was not learned. */
function makePiece(text, decided = false) {
  return { text, decided, accepted: false, words: null, before: null };
}

function piecesOf(text) {
  return text.match(PIECE) ?? [];
}
