// The server's API, as promises. Knows HTTP; knows nothing about the page.

const TIMEOUT_MS = 8000;

/** The server did not answer. */
export class ServerGone extends Error {}

/** GET JSON, or POST an object and get JSON. signal: cancels the request. */
export async function call(path, body = undefined, signal = undefined) {
  const timeout = AbortSignal.timeout(TIMEOUT_MS);
  const options = { signal: signal ? AbortSignal.any([signal, timeout]) : timeout, cache: "no-cache" };
  if (body !== undefined) {
    Object.assign(options, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  }
  let response;
  let answer;
  try {
    response = await fetch(path, options);
    answer = await response.json();
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ServerGone("The server does not answer.");
  }
  if (!response.ok) throw new Error(answer.error ?? `The server answered with status ${response.status}.`);
  return answer;
}

/**
 * Suggestions from the server. Every engine has `suggest(asked, signal)`, `correct(asked)`, `times(percents)` and `words`.
 * asked: {text, knob, k, taps}.
 */
export class ServerEngine {
  words = {
    list: async () => (await call("api/words")).words,
    learn: async (word) => (await call("api/learn", { word })).words,
    forget: async (word) => (await call("api/forget", { word })).words,
  };

  suggest({ text, knob, k, taps }, signal) {
    return call("api/suggest", { text, knob, k, taps }, signal);
  }

  async correct({ text, knob, k, taps }) {
    return (await call("api/correct", { text, knob, k, taps })).suggestions;
  }

  async times(percents) {
    return (await call("api/times", { percents })).times_ms;
  }
}
