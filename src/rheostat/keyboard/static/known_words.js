// Correct words that are not in the model's vocabulary: rheostat/text/known_words.py, for a browser. The Python module is the
// definition and describes the bytes; tests compare both.

import { HASH_SEEDS, KNOWN_HEADER_BYTES, LEAST_KNOWN_LETTERS, POSSESSIVE } from "./tables.js";

const utf8 = new TextEncoder();

export class KnownWords {
  #bits;
  #places;

  /** stored: the bytes in base64; null if there are none. */
  constructor(stored) {
    const bytes = Uint8Array.from(atob(stored ?? ""), (byte) => byte.charCodeAt(0));
    this.#places = bytes[4];
    this.#bits = bytes.subarray(KNOWN_HEADER_BYTES);
  }

  /** Whether a word in lower case is known; "latte's" if "latte" is. */
  has(form) {
    if (!this.#bits.length || [...form].length < LEAST_KNOWN_LETTERS) return false;
    const word = utf8.encode(form.endsWith(POSSESSIVE) ? form.slice(0, -POSSESSIVE.length) : form);
    const [first, step] = HASH_SEEDS.map((seed) => hash(word, seed));
    for (let number = 0; number < this.#places; number += 1) {
      const place = ((first + Math.imul(number, step | 1)) >>> 0) % (8 * this.#bits.length);
      if (!((this.#bits[place >>> 3] >>> (place & 7)) & 1)) return false;
    }
    return true;
  }
}

function hash(bytes, seed) {
  let number = seed;
  for (const byte of bytes) number = Math.imul(number ^ byte, 0x01000193);
  number = Math.imul(number ^ (number >>> 16), 0x85ebca6b);
  number = Math.imul(number ^ (number >>> 13), 0xc2b2ae35);
  return (number ^ (number >>> 16)) >>> 0;
}
