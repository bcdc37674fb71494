// Runs writing_cases.json against the page's modules: in Node.js (arguments: folder of the page, cases), or in a browser.

const END = 24; // characters of a text with a suggestion in it that are compared

export function differences(vocabulary, writing, { casing, words, cases }) {
  const spellings = new Map(Object.entries(casing));
  const found = [];
  const compare = (given, what, got, wanted) => {
    if (JSON.stringify(got) === JSON.stringify(wanted)) return;
    found.push({ text: given.text, tokenizer: given.tokenizer, what, got, wanted });
  };
  for (const given of cases) {
    const { text, tokenizer } = given;
    const typed = writing.splitTyped(text, tokenizer);
    const { starts_sentence: startsSentence, ...wanted } = given.typed;
    compare(given, "tokens", vocabulary.tokenize(text, tokenizer), given.tokens);
    compare(given, "typed", typed, { ...wanted, startsSentence });
    compare(given, "starts_sentence", writing.atSentenceStart(text), given.starts_sentence);
    const suggestions = words.map((word) => {
      const suggestion = writing.compose(word, 0.5, typed, spellings, tokenizer);
      return [suggestion.word, suggestion.replaces, [...writing.insertInto(text, suggestion)].slice(-END).join("")];
    });
    compare(given, "suggestions", suggestions, given.suggestions);
  }
  return found;
}

if (globalThis.process?.argv?.[1]?.endsWith("check_writing.mjs")) {
  const { readFileSync } = await import("node:fs");
  const { pathToFileURL } = await import("node:url");
  const [folder, path] = process.argv.slice(2);
  const load = (name) => import(pathToFileURL(`${folder}/${name}`));
  const cases = JSON.parse(readFileSync(path, "utf-8"));
  console.log(JSON.stringify(differences(await load("vocabulary.js"), await load("writing.js"), cases).slice(0, 20), null, 1));
}
