// Which words may have been meant, and how they are shown: rheostat/words/slips.py, for a browser without a server. The Python
// module is the definition and explains why. The core finds the words; this module turns them into suggestions.

import {
  APOSTROPHES, BETWEEN_SENTENCES, CAN_BE_NEGATED, CORRECT_AT, DOUBLED, DOUBLING, ENDINGS, HYPHENS, LONGEST_WORD, MAX_TYPED, NEGATIONS,
  OFFER_AT, PRICES, SOMETIMES_DOUBLED,
} from "./tables.js";
import { asFirstPerson, isSpace, matchingForm, presentWord } from "./writing.js";

const utf8 = new TextEncoder();
const count = (text) => [...text].length;
const isUpper = (character) => /^\p{Uppercase}$/u.test(character);
const isLower = (character) => /^\p{Lowercase}$/u.test(character);

/** What to do with a suggestion: "correct" the finished word automatically, "offer" it, or stay "silent". A next word has no
 * confidence, and is offered. */
export function adviceOf({ finished, kind, confidence }) {
  if (finished && kind === "correction" && confidence >= CORRECT_AT) return "correct";
  return !confidence || confidence >= OFFER_AT ? "offer" : "silent";
}

/** Whether slips are looked for in these letters. */
export function canExplain(form) {
  return form.length > 0 && utf8.encode(form).length <= MAX_TYPED && /\p{L}/u.test(form);
}

/** Whether this is a word of the vocabulary with an ending, as English spells it. hasWord(form): whether the vocabulary has a word. */
export function isInflected(form, hasWord) {
  return Object.keys(ENDINGS).some((ending) => {
    const word = form.slice(0, form.length - ending.length);
    return form.endsWith(ending) && hasWord(word) && takes(word, ending, hasWord);
  });
}

/** Whether a word takes an ending as it is, without a change of its last letters. */
function takes(word, ending, hasWord) {
  const fits = (pattern) => new RegExp(pattern, "u").test(word);
  if (!fits(ENDINGS[ending]) || (ending === "y" && hasWord(`${word}ly`))) return false;
  if (!DOUBLING.includes(ending)) return true;
  return !fits(DOUBLED) && !(fits(SOMETIMES_DOUBLED) && hasWord(word + [...word].at(-1) + ending));
}

/** The price of a word that is not in the vocabulary. isKnown: whether it is a known word. */
export function priceOfNewWord(form, hasWord, isKnown) {
  return Math.min(
    PRICES.new_letter * count(form),
    isInflected(form, hasWord) ? PRICES.new_ending : Infinity,
    isKnown ? PRICES.known_word : Infinity,
  );
}

/** How a typed word could be two: {first, second, price}. aboveSpace: the letters of the keys above the space bar. */
export function findHalves(form, aboveSpace) {
  const letters = [...form];
  const from = (start, end) => letters.slice(start, end).join("");
  const found = [];
  for (let place = 1; place < letters.length; place += 1) {
    if (place === 1 && !"ai".includes(letters[0])) continue;
    found.push({ first: from(0, place), second: from(place), price: PRICES.missed_space });
    if (aboveSpace.includes(letters[place]) && place + 1 < letters.length) {
      found.push({ first: from(0, place), second: from(place + 1), price: PRICES.space_as_letter });
    }
  }
  return found;
}

/** Whether a word after this text is a word of its own, or the last part of one with hyphens. */
function standsAlone(before) {
  const characters = [...before].slice(-LONGEST_WORD);
  const run = characters.slice(characters.findLastIndex(isSpace) + 1);
  const opening = run.findIndex((character) => !BETWEEN_SENTENCES.has(character));
  return opening < 0 || run.slice(opening).every((character) => /\p{L}/u.test(character) || (HYPHENS + APOSTROPHES).includes(character));
}

/** Whether two words lack a negation that was typed. */
function dropsNegation(typed, words) {
  const [first, second = ""] = words.split(" ");
  if (NEGATIONS.has(`n${second}`) && typed.endsWith(`n${second}`)) return true;
  const stems = [first, first.slice(0, -1)].filter((stem) => second && CAN_BE_NEGATED.has(stem));
  const shown = (first + second).replaceAll("'", "");
  const lacks = (ending, length) => typed.startsWith(ending, length) && !shown.startsWith(ending, length);
  return stems.some((stem) => lacks("nt", stem.length) || lacks("not", stem.length));
}

/** Whether a finished word may be corrected automatically to `shown`: letters only, and capitals as they were typed. */
function mayBeCorrected(prefix, shown, startsSentence) {
  const letters = [...prefix.replaceAll("'", "").replaceAll("’", "")];
  const rest = letters.slice(1).join("");
  if (!letters.length || !letters.every((letter) => /\p{L}/u.test(letter)) || rest !== rest.toLowerCase()) return false;
  const typed = letters.join("").toLowerCase();
  if (dropsNegation(typed, shown.toLowerCase())) return false;
  if (typed.endsWith("in") && shown.toLowerCase() === `${typed}g`) return false; // "goin", "b" are ways of writing
  if (letters.length === 1 && [...shown].length > 1) return false;
  return startsSentence || isLower(letters[0]) || isUpper([...shown][0] ?? "");
}

/** The k best words as suggestions, with what was typed among them. found: [{word, p, isSlip}]. literal: what was typed. before:
 * the text before a finished word. own: words of the user that begin with what was typed, as suggestions. */
export function composeMeant(found, literal, typed, casing, k, { tokenizer, finished = false, before = "", own = [] }) {
  const { prefix, startsSentence } = typed;
  const form = matchingForm(prefix);
  const capitals = prefix !== form || startsSentence;
  let total = found.reduce((sum, one) => sum + one.p, 0) + (literal?.p ?? 0) || 1;
  const usual = (word) => casing.get(word) || asFirstPerson(word);
  const shown = new Map(); // the word as it is shown -> {p, kind}
  const add = (word, p, kind) => {
    if (!shown.has(word)) shown.set(word, { p: 0, kind });
    shown.get(word).p += p;
  };
  const isPlain = finished && standsAlone(before);
  for (const one of found) {
    if (finished && one.isSlip && !(isPlain && mayBeCorrected(prefix, usual(one.word), startsSentence))) continue;
    const kind = one.isSlip ? "correction" : matchingForm(one.word) === form ? "typed" : "completion";
    add(capitals || one.word.includes("'") ? withCapitals(one, typed, casing, tokenizer) : usual(one.word), one.p, kind);
  }
  const fresh = new Set(own.map(({ word }) => word).filter((word) => !shown.has(word)));
  let rest = literal;
  for (const { word, probability } of own) {
    total += probability;
    const isTyped = matchingForm(word) === form;
    add(word, probability, isTyped ? "typed" : "completion");
    if (isTyped && rest && prefix === form) {
      add(word, rest.p, "typed");
      rest = null;
    }
  }
  if (rest) add(prefix, rest.p, "typed");
  const best = [...shown].sort(([, one], [, other]) => other.p - one.p);
  const kept = finished && k > 1 ? best.slice(k).find(([, { kind }]) => kind === "typed") : null;
  if (kept) best[k - 1] = kept; // what was typed always has a place
  const replaces = count(prefix);
  return best.slice(0, k).map(([word, { p, kind }]) => ({
    word, probability: p, source: fresh.has(word) ? "user" : "model", replaces, kind, confidence: Math.min(1, p / total), finished,
  }));
}

/** A word with the capitals that were typed; of a corrected one, only a first capital or all capitals count. */
function withCapitals({ word, isSlip }, { prefix, startsSentence }, casing, tokenizer) {
  let shown = presentWord(word, casing, tokenizer, startsSentence, isSlip ? "" : prefix);
  if (isSlip && prefix !== prefix.toLowerCase()) {
    const [first = "", ...others] = shown;
    const isLoud = count(prefix) > 1 && prefix === prefix.toUpperCase();
    if (isLoud) shown = shown.toUpperCase();
    else if (isUpper([...prefix][0])) shown = first.toUpperCase() + others.join("");
  }
  return prefix.includes("’") ? shown.replaceAll("'", "’") : shown;
}
