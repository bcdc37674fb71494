// Caches the page, the browser runtime and the models that were used, so the page works offline.
//
// The server is asked first, so nothing here goes stale. Its answers are cached, and used when it cannot be reached.

const CACHE = "rheostat-3";
const PAGE = [
  "./", "api.js", "battery.js", "browser_engine.js", "chart.js", "completion.js", "dial.js", "engine_worker.js",
  "icon.svg", "keys.js", "manifest.webmanifest", "page.js", "slider.js", "style.css", "tables.js", "text_field.js",
  "vocabulary.js", "writing.js", "api/model",
];
const MODELS_KEPT = 8;
const EXPORT = /^.*\/api\/export\/\d+\//;

self.addEventListener("install", (event) => {
  event.waitUntil(caches.open(CACHE).then((cache) => cache.addAll(PAGE)).then(() => self.skipWaiting()));
});

self.addEventListener("activate", (event) => event.waitUntil(activate()));

async function activate() {
  for (const name of await caches.keys()) if (name !== CACHE) await caches.delete(name);
  await self.clients.claim();
}

self.addEventListener("message", (event) => {
  if (Array.isArray(event.data?.keep)) event.waitUntil(keep(event.data.keep));
});

async function keep(addresses) {
  const cache = await caches.open(CACHE);
  for (const address of addresses) {
    const response = await fetch(address, { cache: "no-cache" });
    if (!response.ok) continue;
    // A model is written again even if it has not changed: its position in the cache says when it was last used.
    if (EXPORT.test(response.url)) await cache.put(address, response);
    else await put(cache, address, response);
  }
  await dropModels(cache, MODELS_KEPT);
}

/** Writes only what has changed. Exports of another model are dropped. */
async function put(cache, address, response) {
  const before = await cache.match(address);
  if (before && response.url.endsWith("/api/model") && (await before.text()) !== (await response.clone().text())) {
    await dropModels(cache, 0);
  }
  const etag = response.headers.get("etag");
  if (!etag || before?.headers.get("etag") !== etag) await cache.put(address, response);
}

/** Drops all but the most recently used models. */
async function dropModels(cache, kept) {
  const addresses = (await cache.keys()).map(({ url }) => url).reverse(); // the last one written first
  const folders = [...new Set(addresses.map((url) => EXPORT.exec(url)?.[0]).filter(Boolean))];
  for (const folder of folders.slice(kept)) {
    for (const url of addresses.filter((address) => address.startsWith(folder))) await cache.delete(url);
  }
}

self.addEventListener("fetch", (event) => {
  const { request } = event;
  const isOurs = new URL(request.url).origin === self.location.origin;
  if (request.method === "GET" && isOurs && !request.url.endsWith("/api/health")) event.respondWith(answer(request));
});

async function answer(request) {
  const cache = await caches.open(CACHE);
  try {
    const response = await fetch(request);
    if (response.ok && (await cache.match(request))) await put(cache, request, response.clone());
    return response;
  } catch (error) {
    const kept = await cache.match(request, { ignoreSearch: true });
    if (kept) return kept;
    throw error;
  }
}
