// What the page's typist answers: node check_typing.mjs SITE CASES. In a browser, `answers` is called.
//
// A case is {method, text, percent, k, taps?, layout?, cache?, userWords?}; its answer is the list of suggestions.

export function answers(typist, cases) {
  return cases.map(({ method, ...asked }) => typist[method](asked));
}

export async function openTypist({ loadCore, openModel }, { Typist }, bytes) {
  const facts = JSON.parse(new TextDecoder().decode(await bytes("model.json")));
  return new Typist(openModel(await loadCore(await bytes("rheostat.wasm")), await bytes("model.safetensors")), facts);
}

if (globalThis.process?.argv?.[1]?.endsWith("check_typing.mjs")) {
  const { readFileSync } = await import("node:fs");
  const { pathToFileURL } = await import("node:url");
  const [site, cases] = process.argv.slice(2);
  const load = (name) => import(pathToFileURL(`${site}/${name}`));
  const typist = await openTypist(await load("rheostat.js"), await load("typist.js"), (name) => readFileSync(`${site}/${name}`));
  console.log(JSON.stringify(answers(typist, JSON.parse(readFileSync(cases, "utf-8")))));
}
