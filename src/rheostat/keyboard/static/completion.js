// Which words may be suggested for a prefix: rheostat/words/completion.py, for a browser without a server. Which words may
// be suggested at all is in model.json, one digit per word.

import { PART, WHOLE } from "./tables.js";
import { matchingForm } from "./writing.js";

export class Completion {
  constructor(words, suggestible) {
    this.size = words.length;
    this.whole = makeIndex(words, suggestible, WHOLE);
    this.parts = makeIndex(words, suggestible, PART);
  }

  /** The ids of the words that begin with a prefix. */
  withPrefix(prefix, attach) {
    return this.idsWithPrefix(matchingForm(prefix), attach);
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
