// Opens a model file whole and with single bits flipped: node check_sums.mjs CORE_FOLDER MODEL COUNT. Prints what was noticed.

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [folder, name, count] = process.argv.slice(2);
const { CoreError, loadCore, openModel } = await import(pathToFileURL(`${folder}/rheostat.js`));
const module = await WebAssembly.compile(readFileSync(`${folder}/rheostat.wasm`));
const whole = new Uint8Array(readFileSync(name));

/** Why a file is refused; null if it is opened. */
async function refusal(file, options) {
  const core = await loadCore(module);
  try {
    openModel(core, file, options);
  } catch (error) {
    if (!(error instanceof CoreError)) throw error;
    return error.message;
  }
  return null;
}

const begun = performance.now();
const found = { whole: await refusal(whole), refused: 0, opened: 0, unverified: 0, messages: [] };
for (let number = 0; number < Number(count); number++) {
  const file = whole.slice();
  const place = 8 + Math.floor(((file.length - 8) * (number + 0.5)) / count);
  file[place] ^= 1 << number % 8;
  const message = await refusal(file);
  if (message === null) found.opened++;
  else found.refused++;
  if (message !== null && !found.messages.includes(message)) found.messages.push(message);
  found.unverified += (await refusal(file, { verify: false })) === null;
}
console.log(JSON.stringify({ ...found, ms: performance.now() - begun }));
