// Splits typed text into the words that a model was trained on: rheostat/text/tokenizers.py, for a browser without a
// server.
//
// The Python module is the definition. tests/browser/writing_cases.json holds texts with its answers, and both are tested
// against them. JavaScript counts in UTF-16 units and has no possessive quantifiers; comments say where that matters.

import {
  ABBREVIATIONS, AFTER_APOSTROPHE, FOLDED_CHARACTERS, NUMBER, PTB_CLITICS, PTB_NUMBER, PTB_SIGNS, WIKITEXT_JOINTS,
} from "./tables.js";

// Python's \w, \s and control characters, to be used inside brackets.
const WORD = "\\p{L}\\p{N}_";
export const SPACE = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const CONTROL = "\\x00-\\x1f\\x7f-\\x9f";
const NO_LETTER = "(?![\\u{e0100}-\\u{e01ef}])"; // variants of rare Han characters: marks, but not part of words

const FOLDABLE = new RegExp(`[${Object.keys(FOLDED_CHARACTERS).join("")}]`, "gu");

/** Replaces typographic apostrophes and the ellipsis by plain ones and removes invisible characters. */
export function fold(text) {
  return text.replace(FOLDABLE, (character) => FOLDED_CHARACTERS[character]);
}

/** Text as words, without `<eos>`. tokenizer: "words", "ptb" or "wikitext". */
export function tokenize(text, tokenizer) {
  return { words: tokenizeRaw, ptb: tokenizePtb, wikitext: tokenizeWikitext }[tokenizer](text);
}

// --- raw text ---

const RAW = makeRawPattern();
const DIGIT_FIRST = /^\p{Nd}/u;

function makeRawPattern() {
  const letter = `(?:${NO_LETTER}[${WORD}\\p{M}\\u200c\\u200d])`;
  const modified = "[\\u0300-\\u036f\\u20d0-\\u20ff\\ufe00-\\ufe0f\\u{1f3fb}-\\u{1f3ff}\\u{e0020}-\\u{e007f}]*";
  const sign = `[^${WORD}${SPACE}${CONTROL}\\u200c\\u200d]`;
  const ending = `(?:[sSſ][tT]|[nN][dD]|[rR][dD]|[tT][hH]|'?[sSſ])(?![${WORD}])`;
  return new RegExp(
    `\\p{Nd}+(?:[.,:]\\p{Nd}+)*(?:${ending}|\\ufe0f?\\u20e3)?` +
      `|[${WORD}]${letter}*(?:'${letter}+)*` +
      "|\\.\\.\\." +
      "|[\\u{1f1e6}-\\u{1f1ff}]{2}" +
      `|${sign}${modified}(?:\\u200d${sign}${modified})*`,
    "gu",
  );
}

function tokenizeRaw(text) {
  const folded = fold(text).replaceAll("_", " _ ").replace(/\.\.+/g, " ... ");
  const pieces = folded.match(RAW) ?? [];
  return pieces.map((piece) => (DIGIT_FIRST.test(piece) ? NUMBER : piece.toLowerCase()));
}

// --- the text of prepared corpora ---

const PREPARED = makePreparedPattern();
const PTB_NUMERIC = /^[\p{Nd}.,:/-]+$/u;
const WIKITEXT_PARTS = /(?<=\p{Nd})[.,](?=\p{Nd})|[-/&:,]|'?(?:[^\-/&:,'.]|(?<!\p{Nd})\.|\.(?!\p{Nd}))+/gu;

function makePreparedPattern() {
  const letter = `(?:${NO_LETTER}[${WORD}\\p{M}])`;
  const joint = "(?:[.'&\\-]|\\\\?\\/|(?<=\\p{Nd})[,:](?=\\p{Nd}))";
  const parts = `(?:${AFTER_APOSTROPHE.map(anyCase).join("|")}|\\p{Nd}\\p{Nd}s)`;
  const clitic = `(?<![${WORD}])'${parts}(?![${WORD}])|(?:(?<=s)|(?<![^${SPACE}]))'(?![^${SPACE}])`;
  const number = `(?<![${WORD}])[Nn]o\\.(?=[${SPACE}]?[\\p{Nd}N])`;
  return new RegExp(
    `(<unk>|${clitic}|${number})` +
      `|(${letter}+\\$?(?:${joint}${letter}+)*)(\\.(?!\\.))?` +
      `|(@[-,.]@|\\.\\.+|--+|[^${SPACE}${CONTROL}])`,
    "gu",
  );
}

/** A word as a pattern that ignores case; for Python, "ſ" is a kind of "s" then. */
function anyCase(word) {
  return [...word].map((letter) => `[${letter}${letter.toUpperCase()}${letter === "s" ? "ſ" : ""}]`).join("");
}

function tokenizePtb(text) {
  const tokens = [];
  for (const [, part, word, stop = "", sign] of fold(text).matchAll(PREPARED)) {
    if (word) tokens.push(...ptbWords(word, stop));
    else if (part) tokens.push(part.toLowerCase());
    else if (Object.hasOwn(PTB_SIGNS, sign)) tokens.push(PTB_SIGNS[sign]);
  }
  return tokens;
}

function ptbWords(typed, stop) {
  if (PTB_NUMERIC.test(typed) || typed === PTB_NUMBER) return [PTB_NUMBER];
  const word = typed.toLowerCase();
  if (word === "cannot") return ["can", "not"];
  const clitic = PTB_CLITICS.find((ending) => word.endsWith(ending)) ?? "";
  const stem = word.slice(0, word.length - clitic.length);
  const written = stem.replaceAll("\\", "").replaceAll("/", "\\/");
  const words = stem ? [written + (isAbbreviation(stem) && !clitic ? stop : "")] : [];
  return clitic ? [...words, clitic] : words;
}

function tokenizeWikitext(text) {
  const tokens = [];
  for (const [, part, word, stop, sign] of fold(text).matchAll(PREPARED)) {
    if (!word) {
      tokens.push(part || sign);
      continue;
    }
    const pieces = word.match(WIKITEXT_PARTS) ?? [];
    tokens.push(...pieces.map((piece) => WIKITEXT_JOINTS[piece] ?? piece));
    if (stop && isAbbreviation(pieces.at(-1))) tokens.push(tokens.pop() + stop);
    else if (stop) tokens.push(stop);
  }
  return tokens;
}

function isAbbreviation(word) {
  if ([...word].length === 1) return /\p{L}/u.test(word) && !"iI".includes(word);
  return ABBREVIATIONS.has(word.toLowerCase()) || word.split(".").every((letter) => [...letter].length === 1);
}
