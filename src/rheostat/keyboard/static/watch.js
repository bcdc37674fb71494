// Which parts of a text were meant, and may be learned: the `Watch` of rheostat/runtime/remembering.py, for a browser.

import { CLOSING_SIGNS, LEARN_AGAIN_AT, LEARN_AT, SETTLED } from "./tables.js";
import { SPACE } from "./vocabulary.js";
import { contextWords } from "./writing.js";

const PIECE = new RegExp(`[^${SPACE}]+`, "gu");
const SPACE_AT_END = new RegExp(`[${SPACE}]$`, "u");

/** One text field: shows the memory what was meant in it. */
export class Watch {
  #memory;
  #tokenizer;
  #confirm;
  #isCorrect;
  // [piece of the text, the words that were learned of it], in order; null if it is not counted, not even as what came before
  #learned = [];
  #accepted = new Set();

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
    this.#learned = piecesOf(text).map((piece) => [piece, null]);
  }

  /** Called with the current text. accepted: its last word was taken from the suggestions. */
  see(text, accepted = false) {
    if (!this.#memory) return;
    const pieces = piecesOf(text);
    const endsOpen = text !== "" && !SPACE_AT_END.test(text);
    const whole = pieces.length - (endsOpen && !accepted ? 1 : 0);
    if (accepted && pieces.length) this.#accepted.add(pieces.length - 1);
    this.#takeBack(pieces);
    const settled = pieces.length - SETTLED;
    this.#learn(pieces, (place) => place < whole && (place < settled || this.#accepted.has(place)));
  }

  /** The text was sent as it is. Returns what was learned of each piece between spaces. */
  end(text) {
    if (this.#memory) {
      const pieces = piecesOf(text);
      this.#takeBack(pieces);
      this.#learn(pieces, () => true);
    }
    const learned = this.#learned.map(([, words]) => words ?? []);
    this.#learned = [];
    this.#accepted = new Set();
    return learned;
  }

  /** Unlearn pieces that were changed or deleted, last first. */
  #takeBack(pieces) {
    let same = 0;
    while (same < Math.min(pieces.length, this.#learned.length) && this.#learned[same][0] === pieces[same]) same += 1;
    for (let place = this.#learned.length - 1; place >= same; place -= 1) {
      const [, words] = this.#learned.pop();
      if (words?.length) this.#memory.unlearn(words, this.#before(place)).catch(() => {}); // it stays in memory
      this.#accepted.delete(place);
    }
  }

  /** The two words before a piece, as the model reads them; none that was not learned, and none before that. */
  #before(place) {
    const first = this.#learned.slice(0, place).findLastIndex(([, words]) => words === null) + 1;
    const text = this.#learned.slice(first, place).map(([piece]) => piece).join(" ");
    return contextWords(text, this.#tokenizer).slice(first ? 1 : 0).slice(-2); // without the `<eos>` of a text's start
  }

  /** Learn pieces in order, up to the first that is not ready. */
  #learn(pieces, isReady) {
    for (let place = this.#learned.length; place < pieces.length && isReady(place); place += 1) {
      const words = this.#meant(pieces, place);
      if (words?.length) this.#memory.learn(words, this.#before(place)).catch(() => {});
      this.#learned.push([pieces[place], words]);
    }
  }

  /** The words of a piece that are worth learning; null if it looks like a slip. */
  #meant(pieces, place) {
    const words = contextWords(pieces[place], this.#tokenizer).slice(1).filter((word) => /\p{L}/u.test(word));
    if (this.#accepted.has(place) || !words.length) return words;
    const characters = [...pieces[place]];
    while (CLOSING_SIGNS.includes(characters.at(-1) ?? " ")) characters.pop();
    const sure = this.#confirm([...pieces.slice(0, place), characters.join("")].join(" "));
    const isName = /^\p{Uppercase}/u.test(pieces[place]) && words.length === 1; // nobody types a capital by accident
    const isMeant = sure >= LEARN_AT && (isName || words.every(this.#isCorrect));
    return isMeant || (sure >= LEARN_AGAIN_AT && this.#memory.wasSeen(words)) ? words : null;
  }
}

function piecesOf(text) {
  return text.match(PIECE) ?? [];
}
