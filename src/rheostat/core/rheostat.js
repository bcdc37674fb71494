// The core in JavaScript, for browsers and Node.js: a thin layer over rheostat.wasm. rheostat.h explains the calls.
//
//     const model = openModel(await loadCore(wasmBytes), fileBytes);
//     const position = model.position(0.5);
//     let state = model.step(position, model.start(), model.endId);
//     state = model.step(position, state, model.find("hello"));
//     model.best(model.predict(position, state), 3);    // [{id, logProbability}, …]
//
// Typing with slips: a tree of words and keys with their prices once, then `beginTyped` per text and `explain` per letter.
//
// States, answers and positions are plain values (Uint8Array): keep them, compare them, drop them. The same model gives
// the same bits here as in C and Python. Words and ids only: the page's writing.js knows texts.

const ALIGNMENT = 64; // more than RHEO_ALIGNMENT: parts then begin with cache lines
const PAGE = 65536; // bytes of a page of WebAssembly's memory
const ERROR_BYTES = 256; // sizeof(rheo_error)
const POSITION_BYTES = 1024; // more than sizeof(rheo_position)
const COST_AT = 132; // offset of rheo_position.cost: after the widths of 16 layers and 17 bounds
const MOST_WORDS = 1024; // RHEO_MAX_BEST

const CHANNEL_BYTES = 17444; // sizeof(rheo_channel)
const MOST_EXPLAINED = 64; // RHEO_MAX_EXPLAINED
const MOST_TYPED = 64; // RHEO_MAX_TYPED
const EXPLAINED_BYTES = 12; // sizeof(rheo_explained): id, log p, cost
const TYPED_KEPT = 2; // words being typed: one, and the second half of one with a missed space

const utf8 = new TextEncoder();
const text = new TextDecoder();

/** What the core says about a file or a call that it refuses. */
export class CoreError extends Error {}

/** The core from the bytes of rheostat.wasm, or from a compiled WebAssembly.Module. */
export async function loadCore(source) {
  const module = source instanceof WebAssembly.Module ? source : await WebAssembly.compile(source);
  const { exports } = await WebAssembly.instantiate(module, {});
  exports._initialize?.();
  return exports;
}

/** A model from the bytes of an ordered model file, which are copied. Each model needs a core of its own.
 *
 * Its checksums are compared, if it has any: damage on the way here, or in a cache, is a CoreError. verify: false leaves
 * that out, which saves a few milliseconds per megabyte. */
export function openModel(core, file, { verify = true } = {}) {
  const model = new Model(core, file);
  if (verify) checkSums(file);
  return model;
}

/** Compare the checksums of a file whose structure is sound: see docs/file-format.md. A file without any is taken as it is. */
function checkSums(file) {
  const start = 8 + new DataView(file.buffer, file.byteOffset, 8).getUint32(0, true); // of the tensors
  const header = file.subarray(8, start);
  const { __metadata__: metadata, ...tensors } = parsed(header);
  const places = Object.values(tensors).map((tensor) => tensor.data_offsets);
  places.sort((one, other) => one[0] - other[0] || one[1] - other[1]);
  const pattern = new RegExp(`^[0-9a-f]{8}( [0-9a-f]{8}){${places.length}}$`);
  const listed = metadata.crc32;
  const isDamaged = listed === undefined ? Object.values(metadata).some((value) => pattern.test(value)) : !pattern.test(listed);
  if (isDamaged) throw new CoreError("the checksums of the model are damaged; expected them as they were written: fetch the file again");
  if (listed === undefined) return;
  const [own, ...sums] = listed.split(" ").map((digits) => Number.parseInt(digits, 16));
  const unsealed = header.slice(); // the header as it was before its own checksum was put in
  const place = new TextDecoder("latin1").decode(header).indexOf('"crc32":"') + 9; // one sign per byte
  unsealed.fill("0".charCodeAt(0), place, place + 8);
  const isWhole = crc32(unsealed) === own && places.every(([begin, end], number) => crc32(file.subarray(start + begin, start + end)) === sums[number]);
  if (!isWhole) throw new CoreError("the model is damaged: a checksum is not as when it was written; fetch the file again");
}

function parsed(header) {
  try {
    return JSON.parse(text.decode(header));
  } catch {
    throw new CoreError("the header of the model is damaged; expected JSON: fetch the file again");
  }
}

let crcTable = null; // of every byte

/** The CRC-32 of zip and PNG. */
function crc32(bytes) {
  crcTable ??= Uint32Array.from({ length: 256 }, (_, byte) => {
    for (let bit = 0; bit < 8; bit++) byte = byte & 1 ? (byte >>> 1) ^ 0xedb88320 : byte >>> 1;
    return byte;
  });
  let sum = ~0;
  for (let at = 0; at < bytes.length; at++) sum = crcTable[(sum ^ bytes[at]) & 255] ^ (sum >>> 8);
  return ~sum >>> 0;
}

class Model {
  #core;
  #model;
  #end; // of the memory that was given out
  #at = {}; // where things lie in WebAssembly's memory
  #held = new Map(); // address -> the value that lies there
  #typed = []; // words being typed, the last one first: {owner, memory, at, answer}

  constructor(core, file) {
    this.#core = core;
    this.#end = core.__heap_base.value;
    const at = this.#at;
    at.error = this.#allocate(ERROR_BYTES);
    at.number = this.#allocate(16);
    at.file = this.#allocate(file.byteLength);
    this.#bytes.set(file, at.file);
    this.#check(core.rheo_workspace_bytes(at.file, file.byteLength, at.number, at.error));
    const needed = this.#number(at.number);
    const workspace = this.#allocate(needed);
    this.#check(core.rheo_open(at.number, at.file, file.byteLength, workspace, needed, 0, at.error));
    this.#model = this.#number(at.number);
    this.vocabularySize = this.#number(core.rheo_config_of(this.#model)); // the first member
    this.stateBytes = core.rheo_state_bytes(this.#model);
    this.answerBytes = core.rheo_answer_bytes(this.#model);
    at.state = this.#allocate(this.stateBytes);
    at.answer = this.#allocate(this.answerBytes);
    at.position = this.#allocate(POSITION_BYTES);
    at.scratch = this.#allocate(core.rheo_scratch_bytes(this.#model));
    at.choice = this.#allocate(64);
    at.mask = this.#allocate(this.vocabularySize);
    at.list = this.#allocate(4 * this.vocabularySize);
    at.words = this.#allocate(4 * MOST_WORDS);
    at.scores = this.#allocate(4 * MOST_WORDS);
  }

  get kernel() {
    const at = this.#core.rheo_kernel_of(this.#model);
    return text.decode(this.#bytes.slice(at, this.#bytes.indexOf(0, at)));
  }

  // --- words ---

  get unknownId() {
    return this.#core.rheo_unknown_id(this.#model);
  }

  get endId() {
    return this.#core.rheo_end_id(this.#model);
  }

  /** The word of an id; null for an id that the model does not have. */
  word(id) {
    const start = this.#core.rheo_word(this.#model, id, this.#at.number);
    return start ? text.decode(this.#bytes.subarray(start, start + this.#number(this.#at.number))) : null;
  }

  /** The id of a word; -1 if the model does not have it. */
  find(word) {
    const bytes = utf8.encode(word);
    if (bytes.length > 4 * this.vocabularySize) return -1;
    this.#bytes.set(bytes, this.#at.list);
    return this.#core.rheo_find_word(this.#model, this.#at.list, bytes.length);
  }

  // --- the knob ---

  /** The largest position of the file's path that costs no more than a share of the whole model. */
  position(share) {
    this.#check(this.#core.rheo_position_near(this.#model, share, this.#at.position, this.#at.error));
    return this.#take(this.#at.position, POSITION_BYTES);
  }

  /** A position by its widths, one per layer, for shares below the end of the path. cost: what it costs. */
  positionOf(widths, cost) {
    this.#core.rheo_position_full(this.#model, this.#at.position);
    new Int32Array(this.#core.memory.buffer, this.#at.position, widths.length).set(widths);
    new Float32Array(this.#core.memory.buffer, this.#at.position + COST_AT, 1)[0] = cost;
    return this.#take(this.#at.position, POSITION_BYTES);
  }

  // --- reading and predicting: values in, values out ---

  /** The state before the text starts. */
  start() {
    this.#core.rheo_start(this.#model, this.#at.state);
    return this.#take(this.#at.state, this.stateBytes);
  }

  /** The state after one more word. */
  step(position, state, word) {
    const { position: where, state: here, scratch, error } = this.#at;
    this.#put(where, position);
    this.#put(here, state);
    this.#held.delete(here);
    this.#check(this.#core.rheo_step(this.#model, where, here, word, scratch, error));
    return this.#take(here, this.stateBytes);
  }

  /** How probable every next word is: an answer for `best` and `logProbabilities`. */
  predict(position, state) {
    const { position: where, state: here, answer, error } = this.#at;
    this.#put(where, position);
    this.#put(here, state);
    this.#check(this.#core.rheo_predict(this.#model, where, here, answer, error));
    return this.#take(answer, this.answerBytes);
  }

  /** The k most probable words. choice: {mask: one byte per word} or {candidates: ids} or {prefix: "ga"}; or nothing. */
  best(answer, k, { mask, candidates, prefix } = {}) {
    const { answer: here, choice, mask: allowed, list, words, scores, number, error } = this.#at;
    this.#put(here, answer);
    const fields = new Uint32Array(5); // rheo_choice
    if (mask) {
      this.#put(allowed, mask);
      fields[0] = allowed;
    }
    if (prefix) {
      const bytes = utf8.encode(prefix);
      if (bytes.length > 4 * this.vocabularySize) return [];
      this.#bytes.set(bytes, list);
      fields.set([list, bytes.length], 1);
    }
    if (candidates) {
      new Int32Array(this.#core.memory.buffer, list, candidates.length).set(candidates);
      fields.set([list, candidates.length], 3);
    }
    this.#bytes.set(new Uint8Array(fields.buffer), choice);
    this.#check(this.#core.rheo_best(this.#model, here, choice, k, words, scores, number, error));
    const found = this.#number(number);
    const ids = new Int32Array(this.#core.memory.buffer, words, found);
    const values = new Float32Array(this.#core.memory.buffer, scores, found);
    return Array.from(ids, (id, place) => ({ id, logProbability: values[place] }));
  }

  /** The log-probability of every word. */
  logProbabilities(answer) {
    this.#put(this.#at.answer, answer);
    this.#check(this.#core.rheo_log_probabilities(this.#model, this.#at.answer, this.#at.list, this.#at.error));
    return new Float32Array(this.#core.memory.buffer, this.#at.list, this.vocabularySize).slice();
  }

  // --- the cache: words written lately become more probable ---

  /** An empty cache of the last words: a value, like a state. */
  startCache(words) {
    const size = this.#core.rheo_cache_bytes(this.#model, words);
    if (size !== this.#at.cacheBytes) {
      this.#at.cache = this.#allocate(size);
      this.#at.cacheBytes = size;
    }
    this.#check(this.#core.rheo_cache_start(this.#model, this.#at.cache, words, this.#at.error));
    return this.#take(this.#at.cache, size);
  }

  /** The cache after `word` followed the text of a state, before that word is read. */
  addToCache(position, cache, state, word) {
    const { position: where, state: here, cache: kept, error } = this.#at;
    this.#put(where, position);
    this.#put(here, state);
    this.#put(kept, cache);
    this.#check(this.#core.rheo_cache_add(this.#model, where, kept, here, word, error));
    return this.#take(kept, cache.byteLength);
  }

  /** The answer for a state with the cache mixed in. */
  mixCache(position, cache, state, { weight, sharpness }, answer) {
    const { position: where, state: here, cache: kept, answer: into, error } = this.#at;
    this.#put(where, position);
    this.#put(here, state);
    this.#put(kept, cache);
    this.#put(into, answer);
    this.#check(this.#core.rheo_cache_mix(this.#model, where, kept, here, weight, sharpness, into, error));
    this.#held.delete(kept); // C uses its last row
    return this.#take(into, this.answerBytes);
  }

  // --- typing with slips ---

  /** The words that may be suggested, as a tree, once per model. forms: as they are compared with what is typed. ids: theirs. */
  openTree(forms, ids) {
    const lines = utf8.encode(forms.join("\n"));
    const bytes = this.#core.rheo_typing_bytes(forms.length, lines.length);
    const memory = this.#allocate(bytes);
    const [at, numbers] = [this.#allocate(lines.length), this.#allocate(4 * ids.length)]; // read once
    this.#bytes.set(lines, at);
    new Int32Array(this.#core.memory.buffer, numbers, ids.length).set(ids);
    const { number, error } = this.#at;
    this.#check(
      this.#core.rheo_typing_open(number, at, lines.length, numbers, forms.length, this.vocabularySize, memory, bytes, error),
    );
    this.#end = at;
    this.#at.tree = this.#number(number);
    Object.assign(this.#at, {
      letters: this.#allocate(4 * MOST_TYPED),
      taps: this.#allocate(8 * MOST_TYPED),
      asked: this.#allocate(20), // rheo_keystrokes
      found: this.#allocate(EXPLAINED_BYTES * MOST_EXPLAINED),
    });
    this.#typed = [];
  }

  /** Keys with the prices of slips, for `explain`. keys: [[letter, x, y], …]. prices: ten nats in the order of rheo_prices. */
  setKeys(keys, prices) {
    const channel = this.#allocate(CHANNEL_BYTES);
    const [rows, floats] = [this.#allocate(12 * keys.length), this.#allocate(4 * prices.length)];
    const view = new DataView(this.#core.memory.buffer);
    keys.forEach(([letter, x, y], place) => {
      view.setUint32(rows + 12 * place, letter.codePointAt(0), true);
      view.setFloat32(rows + 12 * place + 4, x, true);
      view.setFloat32(rows + 12 * place + 8, y, true);
    });
    prices.forEach((price, place) => view.setFloat32(floats + 4 * place, price, true));
    this.#check(this.#core.rheo_typing_set_keys(channel, rows, keys.length, floats, this.#at.error));
    return channel;
  }

  /** A word is being typed after the text that `owner` stands for: an answer, or log p of every word. */
  beginTyped(owner, { answer = null, logProbabilities = null }) {
    const known = this.#typed.findIndex((one) => one.owner === owner);
    if (known >= 0) {
      this.#typed.unshift(...this.#typed.splice(known, 1));
      return this.#typed[0];
    }
    const { tree, number, error, answer: here, list } = this.#at;
    const bytes = this.#core.rheo_typed_bytes(tree);
    const memory = this.#typed.length >= TYPED_KEPT ? this.#typed.pop().memory : this.#allocate(bytes);
    if (logProbabilities) {
      new Float32Array(this.#core.memory.buffer, list, this.vocabularySize).set(logProbabilities);
      this.#check(this.#core.rheo_typed_open(number, tree, list, memory, bytes, error));
    } else {
      this.#put(here, answer);
      this.#check(this.#core.rheo_typed_open_answer(number, tree, this.#model, here, memory, bytes, error));
    }
    this.#typed.unshift({ owner, memory, at: this.#number(number), answer });
    return this.#typed[0];
  }

  /** log p of any word after the text; of a closed cluster, a bound. */
  typedLogProbability(typed, id) {
    return this.#core.rheo_typed_log_probability(typed.at, id);
  }

  /** The k words that explain these letters best: [{id, logProbability, cost}, …]. taps: [[x, y] or null, …]. */
  explain(typed, channel, form, k, { whole = false, taps = null } = {}) {
    const { letters, taps: places, asked, found, number, error, answer: here } = this.#at;
    const bytes = utf8.encode(form);
    if (bytes.length > 4 * MOST_TYPED) return [];
    this.#bytes.set(bytes, letters);
    const count = taps ? Math.min(taps.length, MOST_TYPED) : 0;
    const flat = new Float32Array(this.#core.memory.buffer, places, 2 * count);
    for (let place = 0; place < count; place += 1) flat.set(taps[place] ?? [NaN, NaN], 2 * place);
    const fields = Uint32Array.of(letters, bytes.length, taps ? places : 0, count, whole ? 1 : 0);
    this.#bytes.set(new Uint8Array(fields.buffer), asked);
    if (typed.answer) this.#put(here, typed.answer);
    const [model, answer] = typed.answer ? [this.#model, here] : [0, 0];
    this.#check(this.#core.rheo_typed_best(typed.at, channel, asked, model, answer, k, found, number, error));
    const view = new DataView(this.#core.memory.buffer);
    return Array.from({ length: this.#number(number) }, (_, place) => {
      const row = found + EXPLAINED_BYTES * place;
      return { id: view.getInt32(row, true), logProbability: view.getFloat32(row + 4, true), cost: view.getFloat32(row + 8, true) };
    });
  }

  // --- memory ---

  get #bytes() {
    return new Uint8Array(this.#core.memory.buffer); // not kept, because growing the memory replaces the buffer
  }

  #number(address) {
    return new DataView(this.#core.memory.buffer).getInt32(address, true);
  }

  #allocate(size) {
    const start = Math.ceil(this.#end / ALIGNMENT) * ALIGNMENT;
    this.#end = start + size;
    const missing = this.#end - this.#core.memory.buffer.byteLength;
    if (missing > 0) this.#core.memory.grow(Math.ceil(missing / PAGE));
    return start;
  }

  #put(address, value) {
    if (this.#held.get(address) === value) return;
    this.#bytes.set(value, address);
    this.#held.set(address, value);
  }

  #take(address, size) {
    const value = this.#bytes.slice(address, address + size);
    this.#held.set(address, value);
    return value;
  }

  #check(status) {
    if (!status) return;
    const { error } = this.#at;
    throw new CoreError(text.decode(this.#bytes.slice(error, this.#bytes.indexOf(0, error))));
  }
}
