// Which words may be suggested for a prefix, and the best of them: rheostat/words/completion.py, for a browser
// without a server. The server says which words may be suggested at all, one byte per word (`suggestible.bin`).

import { PART, WHOLE } from "./tables.js";
import { matchingForm } from "./writing.js";

export class Completion {
  constructor(words, suggestible) {
    this.size = words.length;
    this.whole = makeIndex(words, suggestible, WHOLE);
    this.parts = makeIndex(words, suggestible, PART);
  }

  /** Ids and probabilities of the k most probable words with a prefix; between equals the smaller id comes first. */
  best(logProbabilities, prefix, k, attach) {
    const best = [];
    for (const id of this.idsWithPrefix(matchingForm(prefix), attach)) {
      const value = logProbabilities[id];
      if (value === -Infinity || (best.length === k && !isBetter(value, id, best[k - 1]))) continue;
      let place = best.length;
      while (place > 0 && isBetter(value, id, best[place - 1])) place -= 1;
      best.splice(place, 0, { id, value });
      best.length = Math.min(best.length, k);
    }
    return best.map(({ id, value }) => ({ id, probability: Math.exp(value) }));
  }

  /** One byte per word: 1 for those that begin with a prefix. */
  allowed(prefix, attach) {
    const mask = new Uint8Array(this.size);
    for (const id of this.idsWithPrefix(matchingForm(prefix), attach)) mask[id] = 1;
    return mask;
  }

  idsWithPrefix(form, attach) {
    if (!form) return attach ? [...this.whole.ids, ...this.parts.ids] : this.whole.ids;
    return withForm(attach ? this.parts : this.whole, form);
  }
}

function isBetter(value, id, other) {
  return value > other.value || (value === other.value && id < other.id);
}

function makeIndex(words, suggestible, kind) {
  const entries = [];
  words.forEach((word, id) => {
    if (suggestible[id] === kind) entries.push([matchingForm(word), id]);
  });
  entries.sort(([one], [other]) => (one < other ? -1 : one > other ? 1 : 0));
  return { forms: entries.map(([form]) => form), ids: entries.map(([, id]) => id) };
}

function withForm({ forms, ids }, form) {
  let low = 0;
  let high = forms.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (forms[middle] < form) low = middle + 1;
    else high = middle;
  }
  let end = low;
  while (end < forms.length && forms[end].startsWith(form)) end += 1;
  return ids.slice(low, end);
}
