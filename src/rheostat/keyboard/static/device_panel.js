// The device beside the knob: battery, charger, thermometer and power saver, set by hand or followed from this browser.
// Asks `governing.js` what they mean for the knob. Fires "decision" with the decision as its detail.

import { makeBattery } from "./battery.js";
import { decide, lineOf, start } from "./governing.js";
import { HEATS } from "./tables.js";

const SECONDS_PER_SECOND = 60; // by hand, one second is one minute of the device's day: a policy waits a minute between turns
const ROUND_MS = 1000;
const SETTLED_S = 120; // after the last wait of a policy, nothing changes until the device does
const HEAT_WORDS = ["normal", "light heat", "moderate heat", "severe heat"];
const PRESSURES = { nominal: 0, fair: 1, serious: 2, critical: 3 }; // of the Compute Pressure interface

export class DevicePanel extends EventTarget {
  #battery;
  #heat;
  #charging;
  #saver;
  #governed;
  #follow;
  #policy = null;
  #knob;
  #previous = null;
  #timer = 0;
  #clock = { ms: performance.now(), s: 0 };
  #changed = 0;
  #costs = new Map();
  #latest = {};
  #observer = null;

  /** find(id): an element of the page. knob(): the knob's share now. */
  constructor(find, knob) {
    super();
    this.#knob = knob;
    this.#charging = find("charging");
    this.#battery = makeBattery(find("battery"), (percent) =>
      `${percent} percent, ${this.#charging.checked ? "on the charger" : "not on the charger"}`,
    );
    this.#heat = find("heat");
    this.#saver = find("power-saver");
    this.#governed = find("governed");
    this.#follow = find("follow");
    const changed = () => this.#change();
    this.#battery.addEventListener("input", changed);
    this.#heat.addEventListener("input", changed);
    for (const box of [this.#charging, this.#saver]) box.addEventListener("change", changed);
    this.#governed.addEventListener("change", () => (this.governed = this.#governed.checked));
    this.#follow.addEventListener("change", () => this.#setFollowed(this.#follow.checked));
    find("follow-label").hidden = !navigator.getBattery && !globalThis.PressureObserver;
    document.addEventListener("visibilitychange", () => this.#follow.checked && this.#soon());
    this.#show();
  }

  set policy(policy) {
    this.#policy = policy;
    this.#battery.value = 100;
  }

  get governed() {
    return this.#governed.checked;
  }

  set governed(wanted) {
    this.#governed.checked = wanted;
    if (wanted) {
      this.#soon();
      return;
    }
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.#previous = null;
  }

  /** Take the times of queries, in milliseconds by percent of the knob; budgets are based on them. */
  observe(times) {
    this.#latest = times;
    for (const [percent, milliseconds] of Object.entries(times)) this.#costs.set(Number(percent) / 100, milliseconds);
    if (this.#policy?.latency_ms !== null && this.governed) this.#soon();
  }

  #change() {
    this.#show();
    this.governed = true;
  }

  #show() {
    const heat = Number(this.#heat.value);
    this.#heat.dataset.state = HEATS[heat];
    this.#heat.setAttribute("aria-valuetext", HEAT_WORDS[heat]);
    this.#battery.refresh();
  }

  #soon() {
    this.#changed = this.#seconds();
    if (!this.#timer) this.#timer = setTimeout(() => this.#govern(), 60);
  }

  /** The device's own clock, which runs faster while it is set by hand. */
  #seconds() {
    const ms = performance.now();
    this.#clock.s += ((ms - this.#clock.ms) / 1000) * (this.#follow.checked ? 1 : SECONDS_PER_SECOND);
    this.#clock.ms = ms;
    return this.#clock.s;
  }

  #govern() {
    this.#timer = 0;
    if (!this.#policy || !this.governed) return;
    const time = this.#seconds();
    const table = this.#table();
    this.#previous = decide(this.#policy, this.#situation(time), this.#previous ?? start(this.#knob()), table);
    this.dispatchEvent(new CustomEvent("decision", { detail: this.#previous }));
    const longest = Math.max(this.#policy.dwell_s, this.#policy.heat_recovery_s) + SETTLED_S;
    const waits = this.#follow.checked || time - this.#changed < longest;
    if (waits && !this.#timer) this.#timer = setTimeout(() => this.#govern(), ROUND_MS);
  }

  #situation(time) {
    return {
      time_s: time,
      level: this.#battery.value / 100,
      charging: this.#charging.checked,
      power_saver: this.#saver.checked,
      heat: HEATS[Number(this.#heat.value)],
      foreground: this.#follow.checked ? document.visibilityState === "visible" : null,
      latency_ms: this.#latest[Math.round(100 * this.#knob())] ?? null,
    };
  }

  /** What queries cost here, from the positions visited so far; null without a budget. */
  #table() {
    if (this.#policy.latency_ms === null || !this.#costs.size) return null;
    return { latency_ms: lineOf([...this.#costs].sort(([one], [other]) => one - other)) };
  }

  // --- this device ---

  async #setFollowed(wanted) {
    this.#observer?.disconnect();
    this.#observer = null;
    this.#seconds();
    if (!wanted) return;
    this.governed = true;
    await Promise.all([this.#followBattery(), this.#followPressure()]);
  }

  async #followBattery() {
    const battery = await navigator.getBattery?.().catch(() => null);
    if (!battery) return;
    const read = () => {
      if (!this.#follow.checked) return;
      this.#battery.value = Math.round(battery.level * 100);
      this.#charging.checked = battery.charging;
      this.#show();
      this.#soon();
    };
    battery.addEventListener("levelchange", read);
    battery.addEventListener("chargingchange", read);
    read();
  }

  async #followPressure() {
    if (!globalThis.PressureObserver) return;
    const observer = new PressureObserver((records) => {
      this.#heat.value = PRESSURES[records.at(-1).state];
      this.#show();
      this.#soon();
    });
    try {
      await observer.observe("cpu", { sampleInterval: 1000 });
      this.#observer = observer;
    } catch {
      // not allowed, or no such sensor: the thermometer stays where it is
    }
  }
}
