// Reads text as an app does that knows nothing but text.json: node check_text_rules.mjs INPUT, with {described, texts, samples}.
// samples: {name: {piece, prefix}}, the patterns of sketches, in the syntax of text.json.
import { readFileSync } from "node:fs";

const { described, texts, samples } = JSON.parse(readFileSync(process.argv[2], "utf-8"));
const { folded, sentence_ends: ends, between_sentences: between, abbreviations, no_space_behind: noSpaceBehind } = described.tables;
const fold = (text) => [...text].map((character) => folded[character] ?? character).join("");
const compile = (pattern, flags) => new RegExp(pattern.replaceAll("\\x{", "\\u{"), flags);

/** The words that are read, and the word being typed, as it is compared. */
function split(text, patterns) {
  const plain = fold(text);
  const start = plain.search(compile(patterns.prefix, "u"));
  const end = start < 0 ? plain.length : start;
  const words = ["<eos>"];
  for (const { 0: piece, index } of plain.matchAll(compile(patterns.piece, "gu"))) {
    if (index + piece.length > end) break;
    if (piece !== "\n") words.push(/^\p{Nd}/u.test(piece) ? "<num>" : piece.startsWith("..") ? "..." : piece.toLowerCase());
    else if (words.at(-1) !== "<eos>") words.push("<eos>");
  }
  return { words, prefix: plain.slice(end).toLowerCase() };
}

/** All words of a text, the last one too. */
const wordsOf = (text, patterns) => split(`${text} `, patterns).words;

function startsSentence(text) {
  const before = text.trimEnd();
  if (before === "" || text.slice(before.length).includes("\n")) return true;
  const line = fold(before.slice(before.lastIndexOf("\n") + 1));
  if (!/[\p{L}\p{N}]/u.test(line)) return true;
  let rest = line;
  while (between.includes([...rest].at(-1)) || /\s$/u.test(rest)) rest = [...rest].slice(0, -1).join("");
  if (/\.\.$/.test(rest)) return true;
  if (!ends.includes([...rest].at(-1))) return false;
  const word = /[^\s\-/&:,'"(]*$/u.exec(rest.slice(0, -1))[0];
  if (!rest.endsWith(".") || word === "") return true;
  const letters = word.split(".");
  const isAbbreviation = letters.every((letter) => [...letter].length === 1) && (letters.length > 1 || /^(?![iI])\p{L}$/u.test(word));
  return !isAbbreviation && !abbreviations.includes(word.toLowerCase());
}

function readTyped(text) {
  const { words, prefix } = split(text, described.patterns);
  return { words, prefix, startsSentence: startsSentence(text.slice(0, text.length - prefix.length)) };
}

function show(text, word) {
  const { prefix } = split(text, described.patterns);
  const typed = text.slice(text.length - prefix.length);
  let shown = word === "i" || word.startsWith("i'") ? `I${word.slice(1)}` : word;
  if (startsSentence(text.slice(0, text.length - prefix.length)) && shown === shown.toLowerCase()) {
    shown = shown[0].toUpperCase() + shown.slice(1);
  }
  const capitals = [...typed].filter((letter) => /\p{Lu}/u.test(letter)).length;
  if (capitals > 1 && capitals === [...typed].filter((letter) => /\p{L}/u.test(letter)).length) shown = shown.toUpperCase();
  else shown = [...shown].map((letter, place) => (/\p{Lu}/u.test(typed[place] ?? "") ? typed[place] : letter)).join("");
  return typed.includes("’") ? shown.replaceAll("'", "’") : shown;
}

function insert(text, word) {
  const { prefix } = split(text, described.patterns);
  const shown = show(text, word);
  if (prefix) return text.slice(0, text.length - prefix.length) + shown;
  const isOpen = (before) => before === "" || /\s$/u.test(before) || noSpaceBehind.includes([...before].at(-1));
  const afterQuote = /["']$/.test(text) && isOpen(text.slice(0, -1));
  return text + (isOpen(text) || afterQuote ? "" : " ") + shown;
}

const { vectors, patterns } = described;
const found = {
  words: vectors.words.map(({ text }) => wordsOf(text, patterns)),
  typed: vectors.typed.map(({ text }) => readTyped(text)),
  shown: vectors.shown.map(({ text, word }) => show(text, word)),
  inserted: vectors.inserted.map(({ text, word }) => insert(text, word)),
  texts: texts.map((text) => wordsOf(text, patterns)),
  samples: {},
};
for (const [name, sample] of Object.entries(samples)) {
  const words = vectors.words.map(({ text }) => wordsOf(text, sample));
  found.samples[name] = { words, typed: vectors.typed.map(({ text }) => split(text, sample)) };
}
console.log(JSON.stringify(found));
