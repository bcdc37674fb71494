// The page: connects the text, the knob, the device and the engine. Each has its own module.

import { ServerEngine, ServerGone, call } from "./api.js";
import { BrowserEngine } from "./browser_engine.js";
import { TradeOffTable, format, showNGram } from "./trade_off.js";
import { DevicePanel } from "./device_panel.js";
import { makeDial } from "./dial.js";
import { bytesText, energyText, flopsText, makeItem, showFigure } from "./figures.js";
import { Keys } from "./keys.js";
import { MemoryPanel } from "./memory_panel.js";
import { adviceOf } from "./slips.js";
import { TextField } from "./text_field.js";
import { atSentenceStart, distinct, prefixOf } from "./writing.js";

const SUGGESTIONS = 3;
const RETRY_MS = [500, 1000, 2000, 4000]; // then the last one again and again
const QUIET_MS = 900; // without a key press before suggestions are read out and times are measured
const SETTLE_MS = 300; // how long the knob rests before its time is measured
const KINDS = { correction: "a correction", typed: "as typed" }; // for screen readers
const WHERE = { browser: "in this browser", server: "on the server" };

const element = (id) => document.getElementById(id);
const buttons = [...element("suggestions").children];
const engines = { browser: new BrowserEngine(), server: new ServerEngine() };

let model = null;
let tradeOff = null;
let engineName = "browser";
let shown = { text: null, found: [], suggestions: [] }; // found: as the engine answered
let position = null; // from the last answer: knob, flops, energy_mj, warning
let sequence = 0;
let request = null;

// --- suggestions ---

const field = new TextField(element("text"));
const keys = new Keys(element("keys"), {
  insert: (character, tap) => field.insert(character, tap),
  deleteBackward: () => field.deleteBackward(),
  lock: () => showSuggestions(),
});
let seen = { before: null, value: null };

field.addEventListener("text", () => {
  const { before, value } = field;
  const last = seen;
  seen = { before, value };
  showUndo();
  showSaved();
  if (value !== last.value) learnFrom(false); // what is after the cursor may be deleted too
  if (before === last.before) return;
  keys.shift = atSentenceStart(before) && !/\S$/.test(before);
  ask();
});

/** What an engine needs to know about a text. */
function asked(text) {
  const taps = field.tapsOf([...prefixOf(text, model.tokenizer)].length);
  return { text, knob: knob.value / 100, k: SUGGESTIONS, taps, cache: element("cache").checked };
}

/** Ask for suggestions for the current text; an answer that arrives after the next question is dropped. */
async function ask() {
  if (!model) return; // `start` asks once it is known
  const mine = ++sequence;
  const text = field.before;
  request?.abort();
  request = new AbortController();
  const waiting = setTimeout(() => engineName === "browser" && notify("Loading the model into this browser…"), 600);
  try {
    const answer = await engines[engineName].suggest(asked(text), request.signal);
    if (mine === sequence) show(text, answer);
  } catch (error) {
    if (mine === sequence) fail(error);
  } finally {
    clearTimeout(waiting);
  }
}

function show(text, answer) {
  shown = { text, found: answer.suggestions.filter(isShown), suggestions: [] };
  position = answer;
  retries = 0;
  notify("");
  showSuggestions();
  offer(element("learn"), answer.unknown_word && `Learn “${answer.unknown_word}”`, () => learn(answer.unknown_word));
  showPosition();
  announceLater();
  takeWanted();
}

/** The words that were found, in capitals under caps lock. What was typed stays as it is. */
function showSuggestions() {
  const inCapitals = (found) => (found.kind === "typed" ? found : { ...found, word: found.word.toUpperCase() });
  shown.suggestions = keys.isLocked || hasCapsLock ? distinct(shown.found.map(inCapitals), SUGGESTIONS) : shown.found;
  buttons.forEach((button, place) => {
    const suggestion = shown.suggestions[place];
    button.textContent = suggestion?.word ?? "";
    button.disabled = !suggestion;
    button.dataset.kind = suggestion?.kind ?? "";
    if (KINDS[suggestion?.kind]) button.setAttribute("aria-label", `${suggestion.word}, ${KINDS[suggestion.kind]}`);
    else button.removeAttribute("aria-label");
  });
}

let hasCapsLock = false; // of a keyboard that is not on the screen
for (const kind of ["keydown", "keyup"]) {
  document.addEventListener(kind, (event) => {
    const isOn = event.getModifierState?.("CapsLock") ?? false;
    if (isOn === hasCapsLock) return;
    hasCapsLock = isOn;
    showSuggestions();
  });
}

/** Unlikely suggestions are hidden, but never what was typed. */
function isShown(suggestion) {
  return suggestion.kind === "typed" || adviceOf(suggestion) !== "silent";
}

function clearSuggestions() {
  shown = { text: null, found: [], suggestions: [] };
  showSuggestions();
}

// Between a key press and its answer, the words shown still belong to the earlier text. A word taken then waits for the
// answer, and is taken if it is still suggested.
let wanted = null; // {word, text}

function take(place) {
  const suggestion = shown.suggestions[place];
  wanted = null;
  if (!suggestion) return;
  if (shown.text !== field.before) {
    wanted = { word: suggestion.word, text: field.before };
    return;
  }
  field.take(suggestion);
  learnFrom(!field.after.trim()); // in the middle of a text, a word must first stay unchanged
}

function takeWanted() {
  if (wanted?.text === shown.text) take(shown.suggestions.findIndex(({ word }) => word === wanted.word));
  wanted = null;
}

const ended = new Set(); // words whose corrections are under way: {text}

/** A word was finished: correct it if the correction is almost certainly right. */
field.addEventListener("ended", async ({ detail: text }) => {
  if (!element("autocorrect").checked || !model) return;
  const count = [...prefixOf(text, model.tokenizer)].length;
  const taps = field.tapsOf(count + 1)?.slice(0, -1) ?? null; // one more: what ended the word
  const word = { text };
  ended.add(word);
  try {
    const [best] = await engines[engineName].correct({ ...asked(text), taps });
    if (best && adviceOf(best) === "correct") correct(word, best);
  } catch {} // the next request reports the error
  ended.delete(word);
});

function correct({ text }, best) {
  const { shift } = keys;
  if (!field.correct(text, best)) return;
  keys.shift = shift; // it may have been tapped since the word ended
  announce(`Corrected to ${best.word}. Control Z brings back ${field.replaced}.`);
  const corrected = [...text].slice(0, -best.replaces).join("") + best.word;
  for (const later of ended) if (later.text.startsWith(text)) later.text = corrected + later.text.slice(text.length);
}

/** A button above the suggestions; without a label it is hidden. */
function offer(button, label, act) {
  button.hidden = !label;
  button.textContent = label || "";
  button.onclick = act;
}

/** What was typed stays in reach after a suggestion took its place. */
function showUndo() {
  const typed = field.replaced;
  offer(element("undo"), typed && `↶ ${typed}`, () => {
    field.bringBack();
    element("text").focus({ preventScroll: true });
  });
  element("undo").setAttribute("aria-label", `Back to what was typed: ${typed}`);
}

for (const button of [...buttons, element("undo"), element("learn")]) {
  button.addEventListener("pointerdown", (event) => event.preventDefault()); // the text keeps the focus
}
buttons.forEach((button, place) => button.addEventListener("click", () => take(place)));
document.addEventListener("keydown", (event) => {
  const place = ["Digit1", "Digit2", "Digit3"].indexOf(event.code);
  if (!event.altKey || event.ctrlKey || event.metaKey || place < 0) return;
  event.preventDefault();
  take(place);
});

// --- learned words ---

async function learn(word) {
  await changeWords((words) => words.learn(word), `Learned ${word}.`);
  element("text").focus({ preventScroll: true });
  ask();
}

async function changeWords(change, message) {
  try {
    showWords(await change(engines[engineName].words));
    announce(message);
  } catch (error) {
    notify(error.message);
  }
}

async function readWords() {
  try {
    showWords(await engines[engineName].words.list());
  } catch {
    showWords([]); // the server does not answer; `ask` reports that
  }
}

function showWords(words) {
  element("words-count").textContent = words.length;
  element("words-note").textContent = words.length
    ? `They are kept ${WHERE[engineName]} and suggested from now on.`
    : "Write a word that the model does not know: it can then be learned with one tap.";
  element("words-list").replaceChildren(...words.map(({ word }) => makeItem(word, async () => {
    await changeWords((list) => list.forget(word), `Forgot ${word}.`);
    element("words").querySelector("summary").focus(); // the button is gone
    ask();
  })));
}

// --- the memory, which only the engine in this browser has ---

const memory = new MemoryPanel(element, engines.browser.memory, () => field.value);
const keepMemorySetting = () => remember("memory", memory.isOn ? "on" : "off");
memory.addEventListener("switch", keepMemorySetting);
memory.addEventListener("change", () => {
  keepMemorySetting();
  ask();
});
memory.addEventListener("forgotten", ({ detail }) => {
  announce(detail);
  ask();
});
memory.addEventListener("problem", ({ detail }) => notify(detail));
memory.addEventListener("finish", finish);

function learnFrom(accepted) {
  if (engineName === "browser") memory.see(field.value, accepted);
}

/** The text is finished: learn it, and start a new one. */
async function finish() {
  if (engineName === "browser") await memory.end(field.value);
  field.clear();
  element("text").focus({ preventScroll: true });
}

element("text").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !event.ctrlKey || !memory.isOn) return;
  event.preventDefault();
  finish();
});
for (const id of ["autocorrect", "cache"]) {
  element(id).addEventListener("change", ({ target }) => {
    remember(id, target.checked ? "on" : "off");
    ask();
  });
}

// --- when the server does not answer ---

let retries = 0;
let retrying = 0;

function fail(error) {
  clearSuggestions();
  if (!(error instanceof ServerGone)) {
    notify(error.message, engineName === "browser" && model?.server ? { label: "Use the server", act: () => choose("server") } : null);
    return;
  }
  notify("The server does not answer. Trying again…", model?.browser && { label: "Use this browser", act: () => choose("browser") });
  clearTimeout(retrying);
  retrying = setTimeout(retry, RETRY_MS[Math.min(retries++, RETRY_MS.length - 1)]);
}

async function retry() {
  try {
    if (model) await call("api/health");
    const found = await call("model.json");
    if (model && (found.name !== model.name || found.file_bytes !== model.file_bytes)) location.reload();
    else await (model ? ask() : start());
  } catch (error) {
    if (engineName === "server" || !model) fail(error);
  }
}

/** Show a message at the top; an empty one hides it. action: {label, act}. */
function notify(message, action = null) {
  if (element("notice-text").textContent !== message) element("notice-text").textContent = message;
  element("notice").hidden = !message;
  element("notice-action").hidden = !action;
  element("notice-action").textContent = action?.label ?? "";
  element("notice-action").onclick = action?.act ?? null;
}

// --- the knob ---

const knob = makeDial(element("knob"), (percent) => {
  const flops = position && Math.round(position.knob * 100) === percent ? `, ${flopsText(position.flops)} per query` : "";
  return `${percent} percent of the cost${flops}`;
});
let turning = false;
let turnAgain = false;

knob.addEventListener("input", () => {
  device.governed = false;
  turned();
});

/** Ask at the new position; while waiting for an answer, only the latest further position is remembered. */
async function turned() {
  remember("knob", knob.value);
  measureLater();
  turnAgain = turning;
  if (turning) return;
  turning = true;
  await ask();
  turning = false;
  if (turnAgain) turned();
}

function turnTo(percent) {
  device.governed = false;
  knob.value = percent;
  turned();
}

// --- the device ---

const device = new DevicePanel(element, () => knob.value / 100);
device.addEventListener("decision", ({ detail }) => applyDecision(detail));

function applyDecision(decision) {
  const percent = Math.max(knob.smallest, Math.round(decision.knob * 100));
  const reason = decision.reason.replace(/(\d)%/g, "$1\u00a0%");
  element("reason").textContent = `${reason[0].toUpperCase()}${reason.slice(1)}: knob at ${percent}\u00a0%.`;
  if (percent === knob.value) return;
  knob.value = percent;
  announce(`Knob at ${percent} percent: ${reason}.`);
  turned();
}

// --- figures ---

function showPosition() {
  const { knob: at, flops, flops_fraction: share, bytes_read: bytes, cost, energy_mj: energy, point, warning } = position;
  const percent = Math.round(at * 100);
  element("point").textContent = point === "full" ? "the whole model" : "part of the model";
  element("point").title = point;
  knob.refresh();
  const isKnown = typeof energy === "number";
  showFigure("flops", flopsText(flops).replace("FLOPs", ""), `${(share * 100).toFixed(1)} % of all`);
  showFigure("cost", `${(cost * 100).toFixed(1)} %`, "FLOPs weighted by bits");
  showFigure("bytes", bytesText(bytes), "of weights");
  showFigure("energy", isKnown ? energyText(energy) : "–", isKnown ? (model.energy?.kind ?? "") : "not measured");
  element("figure-energy-note").title = model.energy?.note ?? "";
  element("warning").hidden = !warning;
  element("warning").textContent = warning ? `${warning[0].toUpperCase()}${warning.slice(1)}.` : "";
  showTradeOff(percent);
}

/** Time saved beside quality lost, at the current position and at all of the table. */
function showTradeOff(percent) {
  const time = tradeOff.time(percent);
  showFigure("time", time === undefined ? "–" : `${format(time)} ms`, WHERE[engineName]);
  element("time-saved").textContent = tradeOff.text(tradeOff.saved(percent));
  element("quality-lost").textContent = tradeOff.text(tradeOff.lost(percent));
  element("quality-label").textContent = `quality lost: ${tradeOff.quality(percent)}`;
  tradeOff.draw(percent);
}

function showSaved() {
  const { needed, typed } = field.keystrokes;
  const saved = Math.max(0, needed - typed);
  showFigure("saved", needed ? `${Math.round((100 * saved) / needed)} %` : "–", needed ? `${saved} of ${needed}` : "so far");
}

// --- times, measured when nobody types ---

let measuring = 0;

function measureLater(wait = SETTLE_MS) {
  clearTimeout(measuring);
  measuring = setTimeout(measure, wait);
}

async function measure() {
  const name = engineName;
  const missing = [...new Set([100, ...tradeOff.percents, knob.value])].filter((percent) => tradeOff.time(percent) === undefined);
  if (!missing.length) return;
  try {
    const times = await engines[name].times([...new Set([100, ...missing])]);
    if (name !== engineName) return;
    tradeOff.add(times);
    device.observe(times);
    showTradeOff(knob.value);
    document.documentElement.dataset.measured = name;
  } catch {} // the next request reports the error
}

element("measure").addEventListener("click", () => {
  tradeOff.forget();
  showTradeOff(knob.value);
  measureLater(0);
});

// --- screen readers ---

let announcing = 0;

function announce(message) {
  element("announcer").textContent = message;
}

/** Suggestions are read out when typing pauses, not after every key. */
function announceLater() {
  clearTimeout(announcing);
  const words = shown.suggestions.map(({ word, kind }) => (KINDS[kind] ? `${word}, ${KINDS[kind]}` : word)).join(", ");
  if (words && document.activeElement === element("text")) {
    announcing = setTimeout(() => announce(`Suggestions: ${words}`), QUIET_MS);
  }
}

// --- engines ---

const radios = [...document.querySelectorAll('input[name="engine"]')];
for (const radio of radios) radio.addEventListener("change", () => choose(radio.value));

/** What each whole percentage of the knob costs with an engine: the browser has no stored points. */
function costsOf(name) {
  if (name === "browser") return model.browser.positions.map(({ percent, cost }) => [percent, cost]);
  const { costs } = model.knob;
  return costs.map((cost, place) => [100 - costs.length + 1 + place, cost]);
}

function choose(name) {
  for (const radio of radios) radio.checked = radio.value === name;
  engineName = name;
  remember("engine", name);
  clearTimeout(retrying);
  const costs = costsOf(name);
  tradeOff = new TradeOffTable(element("trade-off-rows"), model.curve, costs, turnTo);
  knob.smallest = costs[0][0];
  element("memory").hidden = name !== "browser";
  if (name === "browser") memory.start(remembered("memory") === "on");
  element("cache-label").hidden = name !== "browser" || model.shape.softmax_splits.length > 0;
  element("trade-off-note").textContent =
    `Time is measured ${WHERE[name]}. ${model.curve ? "Quality lost is the rise in perplexity on text the model has not seen." : "Quality was not measured."}`;
  clearSuggestions();
  ask();
  readWords();
  measureLater(QUIET_MS);
}

// --- start ---

// If the browser stores nothing, the page starts with its defaults every time.
function remember(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {}
}

function remembered(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

async function start() {
  try {
    model = await call("model.json");
  } catch (error) {
    fail(error);
    return;
  }
  const words = model.vocabulary_size.toLocaleString("en");
  element("model-name").textContent = `${model.name} · ${words} words · ${(model.file_bytes / 1e6).toFixed(1)} MB`;
  element("engines").hidden = !(model.server && model.browser);
  element("privacy").textContent = model.server
    ? "The server that sent this page does not log or store what you write, and it goes no further."
    : "What you write stays in this browser.";
  showNGram(element("ngram"), element("ngram-note"), model.ngram, model.curve, model.file_bytes);
  knob.value = Number(remembered("knob")) || 100;
  element("autocorrect").checked = remembered("autocorrect") !== "off";
  element("cache").checked = remembered("cache") === "on";
  device.policy = model.policy;
  // On touch screens the page has its own keys, which the system's keyboard would hide.
  if (matchMedia("(pointer: coarse)").matches) element("text").inputMode = "none";
  const preferred = remembered("engine") ?? "browser";
  choose(model[preferred] ? preferred : model.browser ? "browser" : "server");
  showSaved();
  keys.shift = true;
  element("text").focus({ preventScroll: true });
  document.documentElement.dataset.ready = "";
}

start();
navigator.serviceWorker?.register("service-worker.js").catch(() => {}); // without one, the page works online only
