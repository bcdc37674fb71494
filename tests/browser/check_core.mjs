// The core as WebAssembly in Node.js: node check_core.mjs CORE_FOLDER MODEL CASES. In a browser, `readings` is called.
//
// A case is [[share, word], …]: after each word, the text so far is read at that position of the knob.

export function readings(model, cases) {
  return cases.map((steps) => {
    const words = [];
    return steps.map(([share, word]) => {
      words.push(word);
      const position = model.position(share);
      const state = words.reduce((before, one) => model.step(position, before, one), model.start());
      const answer = model.predict(position, state);
      const best = model.best(answer, 5);
      return [hash(model.logProbabilities(answer)), best.map(({ id }) => id), hash(Float32Array.from(best, (one) => one.logProbability))];
    });
  });
}

/** FNV-1a of the bits. */
function hash(floats) {
  let found = 0x811c9dc5;
  for (const byte of new Uint8Array(floats.buffer, floats.byteOffset, floats.byteLength)) found = Math.imul(found ^ byte, 0x01000193) >>> 0;
  return found;
}

if (globalThis.process?.argv?.[1]?.endsWith("check_core.mjs")) {
  const { readFileSync } = await import("node:fs");
  const { pathToFileURL } = await import("node:url");
  const [folder, file, cases] = process.argv.slice(2);
  const { loadCore, openModel } = await import(pathToFileURL(`${folder}/rheostat.js`));
  const model = openModel(await loadCore(readFileSync(`${folder}/rheostat.wasm`)), readFileSync(file));
  console.log(JSON.stringify({ kernel: model.kernel, readings: readings(model, JSON.parse(readFileSync(cases, "utf-8"))) }));
}
