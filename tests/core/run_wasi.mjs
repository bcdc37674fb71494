// Runs a WebAssembly program of the core's tests: node run_wasi.mjs PROGRAM.wasm MODEL
import { readFile } from "node:fs/promises";
import { basename, dirname } from "node:path";
import { WASI } from "node:wasi";

const [program, model] = process.argv.slice(2);
const wasi = new WASI({
  version: "preview1",
  args: ["bits", `/data/${basename(model)}`],
  preopens: { "/data": dirname(model) },
});
const module = await WebAssembly.compile(await readFile(program));
wasi.start(await WebAssembly.instantiate(module, wasi.getImportObject()));
