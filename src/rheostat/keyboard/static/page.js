// The page: connects the text, the knob, the battery and the engine. Each has its own module.

import { ServerEngine, ServerGone, call } from "./api.js";
import { makeBattery } from "./battery.js";
import { BrowserEngine } from "./browser_engine.js";
import { Chart, format } from "./chart.js";
import { makeDial } from "./dial.js";
import { Keys } from "./keys.js";
import { TextField } from "./text_field.js";
import { atSentenceStart } from "./writing.js";

const SUGGESTIONS = 3;
const RETRY_MS = [500, 1000, 2000, 4000]; // then the last one again and again
const QUIET_MS = 900; // without a key press before suggestions are read out
const SETTLE_MS = 250; // how long the knob rests before a model is fetched into the browser
const SECONDS_PER_SECOND = 60; // one second here is one minute of the battery's day: a policy waits a minute between two turns
const GOVERN_MS = 1000;
const GOVERN_ROUNDS = 5; // after the last change of the battery, because a charger counts as unplugged only after a minute

const element = (id) => document.getElementById(id);
const buttons = [...element("suggestions").children];
const engines = { computer: new ServerEngine(), phone: new BrowserEngine() };

let model = null;
let chart = null;
let engineName = "computer";
let shown = { text: null, suggestions: [] };
let position = null; // from the last answer: knob, flops, query_ms, energy_mj
let sequence = 0;
let request = null;

// --- suggestions ---

const field = new TextField(element("text"));
const keys = new Keys(element("keys"), {
  insert: (character) => field.insert(character),
  deleteBackward: () => field.deleteBackward(),
});
let textBefore = null;

field.addEventListener("text", () => {
  if (field.before === textBefore) return;
  textBefore = field.before;
  keys.shift = atSentenceStart(textBefore) && !/\S$/.test(textBefore);
  showSaved();
  ask();
});

/** Ask for suggestions for the current text; an answer that arrives after the next question is dropped. */
async function ask() {
  const mine = ++sequence;
  const text = field.before;
  request?.abort();
  request = new AbortController();
  const waiting = setTimeout(() => engineName === "phone" && notify("Loading the model into this browser…"), 600);
  try {
    const answer = await engines[engineName].suggest(text, knob.value / 100, SUGGESTIONS, request.signal);
    if (mine === sequence) show(text, answer);
  } catch (error) {
    if (mine === sequence) fail(error);
  } finally {
    clearTimeout(waiting);
  }
}

function show(text, answer) {
  shown = { text, suggestions: answer.suggestions };
  position = answer;
  retries = 0;
  notify("");
  buttons.forEach((button, place) => {
    const suggestion = answer.suggestions[place];
    button.textContent = suggestion?.word ?? "";
    button.disabled = !suggestion;
  });
  showPosition();
  announceLater();
}

function clearSuggestions() {
  shown = { text: null, suggestions: [] };
  for (const button of buttons) {
    button.textContent = "";
    button.disabled = true;
  }
}

function take(place) {
  const suggestion = shown.suggestions[place];
  // Between a key press and its answer, the words shown still belong to the earlier text.
  if (suggestion && shown.text === field.before) field.take(suggestion);
}

buttons.forEach((button, place) => {
  button.addEventListener("pointerdown", (event) => event.preventDefault()); // the text keeps the focus
  button.addEventListener("click", () => take(place));
});
document.addEventListener("keydown", (event) => {
  const place = ["Digit1", "Digit2", "Digit3"].indexOf(event.code);
  if (!event.altKey || event.ctrlKey || event.metaKey || place < 0) return;
  event.preventDefault();
  take(place);
});

// --- when the server does not answer ---

let retries = 0;
let retrying = 0;

function fail(error) {
  clearSuggestions();
  if (!(error instanceof ServerGone)) {
    notify(error.message, engineName === "phone" ? { label: "Use this computer", act: () => choose("computer") } : null);
    return;
  }
  const phone = model?.browser_runtime ? { label: "Use this phone", act: () => choose("phone") } : null;
  notify("The server does not answer. Trying again…", phone);
  clearTimeout(retrying);
  retrying = setTimeout(retry, RETRY_MS[Math.min(retries++, RETRY_MS.length - 1)]);
}

async function retry() {
  try {
    await call("api/health"); // never cached, so the next answer comes from the server itself
    const found = await call("api/model");
    if (model && (found.name !== model.name || found.file_bytes !== model.file_bytes)) location.reload();
    else await (model ? ask() : start());
  } catch (error) {
    if (engineName === "computer" || !model) fail(error);
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
  const cost = position && Math.round(position.knob * 100) === percent ? `, ${flopsText(position.flops)} per query` : "";
  return `${percent} percent of the compute${cost}`;
});
let turning = false;
let turnAgain = false;
let settling = 0;

knob.addEventListener("input", () => {
  setGoverned(false);
  turned();
});

/** Ask at the new position; while waiting for an answer, only the latest further position is remembered. */
async function turned() {
  remember("knob", knob.value);
  if (engineName === "phone") {
    clearTimeout(settling);
    settling = setTimeout(ask, SETTLE_MS);
    return;
  }
  turnAgain = turning;
  if (turning) return;
  turning = true;
  await ask();
  turning = false;
  if (turnAgain) turned();
}

// --- the battery ---

const battery = makeBattery(element("battery"), (percent) =>
  `${percent} percent, ${element("charging").checked ? "on the charger" : "not on the charger"}`,
);
const charging = element("charging");
const governed = element("governed");
let previous = null; // the governor's last decision, which the page keeps for the server
let rounds = 0;
let governing = 0;

battery.addEventListener("input", () => {
  setGoverned(true);
  governSoon();
});
charging.addEventListener("change", () => {
  battery.refresh();
  setGoverned(true);
  governSoon();
});
governed.addEventListener("change", () => (governed.checked ? governSoon() : setGoverned(false)));

function setGoverned(wanted) {
  governed.checked = wanted;
  if (wanted) return;
  clearTimeout(governing);
  governing = 0;
  previous = null;
}

function governSoon() {
  rounds = GOVERN_ROUNDS;
  if (!governing) governing = setTimeout(govern, 60);
}

async function govern() {
  const time = (performance.now() / 1000) * SECONDS_PER_SECOND;
  const memory = previous ?? { knob: knob.value / 100 };
  try {
    const asked = { level: battery.value / 100, charging: charging.checked, time_s: time, previous: memory };
    const decision = await call("api/govern", asked);
    if (!governed.checked) return;
    previous = decision.previous;
    obey(decision);
  } catch {
    element("reason").textContent = "The governor runs on the server, which does not answer.";
  }
  rounds -= 1;
  governing = rounds > 0 && governed.checked ? setTimeout(govern, GOVERN_MS) : 0;
}

function obey(decision) {
  const percent = Math.round(decision.knob * 100);
  const reason = decision.reason.replace(/(\d)%/g, "$1\u00a0%");
  element("reason").textContent = `${reason[0].toUpperCase()}${reason.slice(1)}: knob at ${percent}\u00a0%.`;
  if (percent === knob.value) return;
  knob.value = percent;
  announce(`Knob at ${percent} percent: ${reason}.`);
  turned();
}

// --- figures ---

function flopsText(flops) {
  if (flops >= 1e9) return `${format(flops / 1e9)} GFLOPs`;
  return flops >= 1e5 ? `${format(flops / 1e6)} MFLOPs` : `${format(flops / 1e3)} kFLOPs`;
}

function energyText(millijoules) {
  return millijoules >= 0.1 ? `${format(millijoules)} mJ` : `${format(millijoules * 1e3)} µJ`;
}

/** A figure with its unit in small letters, and a note below it. */
function showFigure(name, figure, note) {
  const [number, unit = ""] = figure.split(" ");
  const small = document.createElement("small");
  small.textContent = unit;
  element(`figure-${name}`).replaceChildren(number, unit ? "\u202f" : "", small);
  element(`figure-${name}-note`).textContent = note;
}

function showPosition() {
  const { knob: at, flops, flops_fraction: share, query_ms: time, energy_mj: energy, point } = position;
  const percent = Math.round(at * 100);
  // Offline, a position may be missing; the knob then shows the one that is used.
  if (engineName === "phone" && percent !== knob.value) {
    element("point").textContent = `${knob.value} % is not stored in this browser; this is ${percent} %.`;
    knob.value = percent;
  } else element("point").textContent = point === "full" ? "the whole model" : point;
  knob.refresh();
  const isKnown = typeof energy === "number";
  showFigure("time", `${format(time)} ms`, engineName === "phone" ? "in this browser" : "on the server");
  showFigure("flops", flopsText(flops).replace("FLOPs", ""), `${(share * 100).toFixed(1)} % of all`);
  showFigure("energy", isKnown ? energyText(energy) : "–", isKnown ? (model.energy?.kind ?? "") : "not measured");
  element("figure-energy-note").title = model.energy?.note ?? "";
  chart.show(share, time);
}

function showSaved() {
  const { needed, typed } = field.keystrokes;
  const saved = Math.max(0, needed - typed);
  showFigure("saved", needed ? `${Math.round((100 * saved) / needed)} %` : "–", needed ? `${saved} of ${needed}` : "so far");
}

// --- screen readers ---

let announcing = 0;

function announce(message) {
  element("announcer").textContent = message;
}

/** Suggestions are read out when typing pauses, not after every key. */
function announceLater() {
  clearTimeout(announcing);
  const words = shown.suggestions.map(({ word }) => word).join(", ");
  if (words && document.activeElement === element("text")) {
    announcing = setTimeout(() => announce(`Suggestions: ${words}`), QUIET_MS);
  }
}

// --- engines ---

const radios = [...document.querySelectorAll('input[name="engine"]')];
for (const radio of radios) radio.addEventListener("change", () => choose(radio.value));

function choose(name) {
  for (const radio of radios) radio.checked = radio.value === name;
  if (name === "phone" && model && !model.browser_runtime) {
    radios.find((radio) => radio.value === "computer").checked = true;
    notify("To run the model in the browser, install its runtime once with make web (needs npm), then reload this page.");
    return;
  }
  engineName = name;
  remember("engine", name);
  clearTimeout(retrying);
  chart.forget();
  clearSuggestions();
  ask();
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
    model = await call("api/model");
  } catch (error) {
    fail(error);
    return;
  }
  const words = model.vocabulary_size.toLocaleString("en");
  element("model-name").textContent = `${model.name} · ${words} words · ${flopsText(model.flops)}`;
  chart = new Chart(element("chart"), element("chart-title"), element("chart-place"), model.curve);
  knob.smallest = Math.round(model.knob.smallest * 100);
  knob.value = Number(remembered("knob")) || 100;
  battery.value = 100;
  // On touch screens the page has its own keys, which the system's keyboard would hide.
  if (matchMedia("(pointer: coarse)").matches) element("text").inputMode = "none";
  choose(remembered("engine") === "phone" && model.browser_runtime ? "phone" : "computer");
  showSaved();
  keys.shift = true;
  element("text").focus({ preventScroll: true });
  document.documentElement.dataset.ready = "";
}

start();
navigator.serviceWorker?.register("service-worker.js").catch(() => {}); // without one, the page works online only
