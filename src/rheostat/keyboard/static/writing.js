// From typed text to the words that a model reads, and from its words to what is shown: rheostat/words/writing.py, for a
// browser without a server. The Python module is the definition and explains why; tests/browser/writing_cases.json checks
// that both give the same answers. Lengths are counted in characters, as in Python, so texts are arrays of characters.

import {
  APOSTROPHES, BETWEEN_SENTENCES, BLOCK, CHARACTERS_PER_WORD, CLITICS, CONTEXT_LIMIT, END_OF_LINE, INSIDE, LONGEST_WORD, NEGATED,
  NO_SPACE_BEHIND, NUMBER_SIGNS, PTB_CLITICS, SENTENCE_ENDS, SENTENCE_LOOK_BACK, UNFINISHED,
} from "./tables.js";
import { SPACE, fold, tokenize } from "./vocabulary.js";

const WHITE = new RegExp(`^[${SPACE}]$`, "u");
const WHITE_AT_END = new RegExp(`[${SPACE}]+$`, "u");
export const isSpace = (character) => WHITE.test(character);
const isWordCharacter = (character) => /^[\p{L}\p{N}]$/u.test(character);
const isLetter = (character) => /^[\p{L}\p{N}\p{M}\u200c\u200d]$/u.test(character);
const isUpper = (character) => /^\p{Uppercase}$/u.test(character);
const join = (characters) => characters.join("");
const count = (text) => [...text].length;

/** The text before the cursor; unless it ends in white space or punctuation, its last word is unfinished. */
export function splitTyped(text, tokenizer, limit = CONTEXT_LIMIT) {
  const characters = [...text];
  let start = wordStart(characters, tokenizer);
  if (start === characters.length) return asContext(characters, tokenizer, limit);
  const word = join(characters.slice(visibleStart(characters, start)));
  const clitic = cliticLength(join(characters.slice(start)), tokenizer);
  if (clitic) {
    start = characters.length - clitic;
    const words = read(characters, start, "", tokenizer, limit);
    return typed({ words, prefix: join(characters.slice(start)), word, attaches: true });
  }
  const words = read(characters, start, characters[start], tokenizer, limit);
  const startsSentence = sentenceStartsAt(characters, start);
  return typed({ words, prefix: join(characters.slice(start)), word, startsSentence });
}

/** The typed part of the word at the end of the text, as `splitTyped` gives it, without reading the words before it. */
export function prefixOf(text, tokenizer) {
  const characters = [...text.slice(-2 * LONGEST_WORD)];
  const word = join(characters.slice(wordStart(characters, tokenizer)));
  const clitic = word ? cliticLength(word, tokenizer) : 0;
  return clitic ? join([...word].slice(-clitic)) : word;
}

function typed(parts) {
  return { words: [], prefix: "", word: "", attaches: false, space: 0, startsSentence: false, ...parts };
}

function asContext(characters, tokenizer, limit) {
  const words = read(characters, characters.length, "", tokenizer, limit);
  const startsSentence = sentenceStartsAt(characters, characters.length);
  let end = characters.length;
  const least = Math.max(0, end - LONGEST_WORD);
  while (end > least && characters[end - 1] === " ") end -= 1;
  const space = characters.length - end;
  const followsWord = end > 0 && isLetter(characters[end - 1]);
  const word = followsWord ? join(characters.slice(visibleStart(characters, end), end)) : "";
  return typed({ words, word, attaches: Boolean(word), space: word ? space : 0, startsSentence });
}

// --- reading ---

/** The words of a text of whole words, as a model reads them. */
export function contextWords(text, tokenizer, limit = CONTEXT_LIMIT) {
  const characters = [...text];
  return read(characters, characters.length, "", tokenizer, limit);
}

function read(characters, end, letter, tokenizer, limit) {
  let start = steadyStart(end, limit * CHARACTERS_PER_WORD);
  if (start) start = breakAfter(characters, start, Math.min(end, start + BLOCK)) ?? start;
  const text = join(characters.slice(start, end)) + letter;
  let words = [...(start ? [] : [END_OF_LINE]), ...splitLines(text, tokenizer)];
  if (tokenizer === "words" && text.includes("\n")) {
    words = words.filter((word, place) => place === 0 || word !== END_OF_LINE || words[place - 1] !== END_OF_LINE);
  }
  if (letter) words.pop();
  return words.slice(steadyStart(words.length, limit));
}

function steadyStart(length, limit) {
  const step = Math.max(1, Math.floor(limit / 2));
  return length > limit ? Math.ceil((length - limit) / step) * step : 0;
}

function breakAfter(characters, place, end) {
  for (let at = place; at < end; at += 1) {
    const before = join(characters.slice(Math.max(0, at - 3), at));
    if (isSpace(characters[at]) && !NUMBER_SIGNS.includes(before)) return at;
  }
  return null;
}

function splitLines(text, tokenizer) {
  const [first, ...others] = text.split("\n");
  const words = tokenize(first, tokenizer);
  for (const line of others) words.push(END_OF_LINE, ...tokenize(line, tokenizer));
  return words;
}

// --- the word being typed ---

function wordStart(characters, tokenizer) {
  const end = characters.length;
  let start = end;
  for (let place = end - 1; place > Math.max(-1, end - 1 - LONGEST_WORD); place -= 1) {
    const character = characters[place];
    const inside = place === end - 1 ? UNFINISHED[tokenizer] : INSIDE[tokenizer];
    if (isWordCharacter(character) && !APOSTROPHES.includes(character)) start = place;
    else if (!isLetter(character) && !inside.includes(character)) break;
  }
  return start;
}

function visibleStart(characters, place) {
  const begin = Math.max(0, place - LONGEST_WORD);
  let start = place;
  while (start > begin && !isSpace(characters[start - 1])) start -= 1;
  while (start < place && !isWordCharacter(characters[start])) start += 1;
  return start;
}

function cliticLength(typedWord, tokenizer) {
  const word = fold(typedWord);
  const apostrophe = word.lastIndexOf("'");
  if (tokenizer === "words" || apostrophe < 0) return 0;
  const rest = word.slice(apostrophe + 1);
  if (tokenizer === "wikitext") return 1 + count(rest);
  const stem = [...word.slice(0, apostrophe)];
  const ending = `'${rest}`.toLowerCase();
  const before = join(stem.slice(0, -1)).toLowerCase();
  const negates = ending === "'t" || (ending === "'" && NEGATED.has(before));
  if (["n", "N"].includes(stem.at(-1)) && negates) return 1 + count(ending);
  return CLITICS.some((clitic) => clitic.startsWith(ending)) ? count(ending) : 0;
}

// --- showing ---

/** Whether the next word begins a line or a sentence. */
export function atSentenceStart(text) {
  const characters = [...text];
  return sentenceStartsAt(characters, characters.length);
}

function sentenceStartsAt(characters, end) {
  const before = join(characters.slice(Math.max(0, end - SENTENCE_LOOK_BACK), end));
  const written = before.replace(WHITE_AT_END, "");
  if (!written || before.slice(written.length).includes("\n")) return true;
  const last = [...written].at(-1);
  if (isLetter(last) || last === ",") return false;
  const line = written.slice(written.lastIndexOf("\n") + 1);
  for (const token of tokenize(line, "wikitext").reverse()) {
    if (SENTENCE_ENDS.has(token) || /^\.*$/.test(token)) return true;
    if (!BETWEEN_SENTENCES.has(token)) break;
  }
  return ![...line].some(isWordCharacter);
}

/** The form in which a word is compared with what is typed. */
export function matchingForm(word) {
  return fold(word).toLowerCase().replaceAll("ς", "σ");
}

function attaches(word, tokenizer) {
  if (tokenizer === "ptb") return PTB_CLITICS.includes(word);
  return tokenizer === "wikitext" && /^'\p{L}/u.test(word);
}

/** A word of the model as a suggestion: {word, probability, source, replaces}. casing: a Map of usual spellings. */
export function compose(word, probability, typedText, casing, tokenizer) {
  let shown;
  let replaces;
  if (typedText.attaches && attaches(word, tokenizer)) {
    const stem = [...typedText.word].slice(0, count(typedText.word) - count(typedText.prefix));
    const capitals = stem.length > 1 && tokenizer === "ptb" && isUpperText(join(stem));
    shown = asFirstPerson(join(stem) + (capitals ? word.toUpperCase() : word));
    replaces = count(typedText.word) + typedText.space;
  } else {
    shown = presentWord(word, casing, tokenizer, typedText.startsSentence, typedText.prefix);
    replaces = count(typedText.prefix);
  }
  if (typedText.prefix.includes("’")) shown = shown.replaceAll("'", "’");
  return { word: shown, probability, source: "model", replaces, kind: "completion", confidence: 0, finished: false };
}

/** A word of the model as it is shown. */
export function presentWord(word, casing, tokenizer, startsSentence, prefix) {
  let shown = tokenizer === "wikitext" ? word : (casing.get(word) ?? asFirstPerson(word));
  if (startsSentence && shown === shown.toLowerCase()) {
    const [first = "", ...others] = shown;
    shown = titleCase(first) + join(others);
  }
  return withCapitalsOf(fold(prefix), shown);
}

function isUpperText(text) {
  return /\p{Uppercase}/u.test(text) && !/[\p{Lowercase}\p{Lt}]/u.test(text);
}

const TITLE_CASE = { ǆ: "ǅ", Ǆ: "ǅ", ǉ: "ǈ", Ǉ: "ǈ", ǌ: "ǋ", Ǌ: "ǋ", ǳ: "ǲ", Ǳ: "ǲ" };

/** Unicode's title case, which JavaScript lacks: "ß" becomes "Ss", and Georgian letters stay as they are. */
function titleCase(character) {
  if (/^[\u10d0-\u10ff]$/u.test(character)) return character;
  const [first = "", ...others] = character.toUpperCase();
  return TITLE_CASE[character] ?? first + join(others).toLowerCase();
}

/** English "i" and "i'm" with their capital. */
export function asFirstPerson(word) {
  const rest = word.slice(1);
  return word[0] === "i" && (!rest || APOSTROPHES.includes(rest[0])) ? `I${rest}` : word;
}

function withCapitalsOf(prefix, word) {
  const characters = [...prefix];
  const letters = characters.filter((character) => /\p{L}/u.test(character));
  if (!letters.some(isUpper) || count(matchingForm(prefix)) !== characters.length) return word;
  if (letters.length > 1 && letters.every(isUpper)) return word.toUpperCase();
  return join([...word].map((own, place) => (characters[place] && isUpper(characters[place]) ? characters[place] : own)));
}

/** The best k; suggestions that look the same are merged. */
export function distinct(suggestions, k) {
  const merged = new Map();
  for (const suggestion of suggestions) {
    const same = merged.get(suggestion.word);
    const probability = suggestion.probability + (same?.probability ?? 0);
    merged.set(suggestion.word, { ...(same ?? suggestion), probability });
  }
  return [...merged.values()].sort((one, other) => other.probability - one.probability).slice(0, k);
}

/** The text after taking a suggestion, without a space after it. */
export function insertInto(text, suggestion) {
  const characters = [...text];
  const kept = characters.slice(0, characters.length - suggestion.replaces);
  return join(kept) + (!suggestion.replaces && needsSpace(kept) ? " " : "") + suggestion.word;
}

function needsSpace(characters) {
  const last = characters.at(-1);
  const before = characters.at(-2);
  if (last === undefined || isSpace(last) || NO_SPACE_BEHIND.has(last)) return false;
  const quotes = last === '"' || last === "'";
  return !(quotes && (before === undefined || isSpace(before) || NO_SPACE_BEHIND.has(before)));
}
