// Caches the page, the core and the model, so the page works offline after the first visit.
//
// Small files are fetched from the network first, so nothing goes stale, and from the cache if the network does not
// answer. The model's address changes with its contents, so it is fetched once.

const CACHE = "rheostat-7";
const PAGE = [
  "./", "api.js", "battery.js", "browser_engine.js", "completion.js", "device_panel.js", "dial.js",
  "engine_worker.js", "figures.js", "governing.js", "icon.svg", "keys.js", "known_words.js", "manifest.webmanifest", "memory.js", "memory_panel.js", "model.json", "page.js", "rheostat.js", "rheostat.wasm",
  "slider.js", "slips.js", "style.css", "tables.js", "text_field.js", "trade_off.js", "typist.js", "user_words.js", "vocabulary.js", "watch.js", "writing.js",
];
const NETWORK_TIMEOUT_MS = 4000; // if the cache has an answer

self.addEventListener("install", (event) => event.waitUntil(install()));

async function install() {
  const cache = await caches.open(CACHE);
  await cache.addAll(PAGE.map((name) => new Request(name, { cache: "no-cache" })));
  await keepModel(cache, await (await cache.match("model.json")).json());
  await self.skipWaiting();
}

self.addEventListener("activate", (event) => event.waitUntil(activate()));

async function activate() {
  for (const name of await caches.keys()) if (name !== CACHE) await caches.delete(name);
  await self.clients.claim();
}

/** Keeps the model that the facts name, and drops any other. */
async function keepModel(cache, facts) {
  if (!facts.browser) return;
  const wanted = new URL(facts.browser.model, self.location.href).href;
  if (!(await cache.match(wanted))) await cache.add(wanted);
  for (const { url } of await cache.keys()) if (isModel(url) && url !== wanted) await cache.delete(url);
}

function isModel(address) {
  return new URL(address).searchParams.has("v");
}

self.addEventListener("fetch", (event) => {
  const { request } = event;
  const url = new URL(request.url);
  const isOurs = url.origin === self.location.origin && !url.pathname.includes("/api/");
  if (request.method === "GET" && isOurs) event.respondWith(answer(event));
});

async function answer(event) {
  const { request } = event;
  const cache = await caches.open(CACHE);
  const kept = await cache.match(request.mode === "navigate" ? "./" : request);
  if (kept && isModel(request.url)) return kept;
  try {
    const response = await fetch(request, kept ? { signal: AbortSignal.timeout(NETWORK_TIMEOUT_MS) } : {});
    if (response.ok && kept) event.waitUntil(put(cache, request, response.clone()));
    return response;
  } catch (error) {
    if (kept) return kept;
    throw error;
  }
}

async function put(cache, request, response) {
  if (request.url.endsWith("/model.json")) await keepModel(cache, await response.clone().json());
  await cache.put(request, response);
}
