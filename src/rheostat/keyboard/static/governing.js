// The governor's decisions in JavaScript: the same as `rheostat.governor.decision`, which explains them.
// tests/browser/check_governing.mjs checks that both make the same decisions. Knows nothing of clocks, sensors and the
// page.

import {
  BUDGET_HIGH,
  BUDGET_LOW,
  BUDGET_UNIT,
  HEATS,
  KNOB_UNIT,
  LARGEST_FACTOR,
  MOST_DOUBLINGS,
  SMOOTHING,
  TINY,
} from "./tables.js";

const HEAT_TIMES = [null, "light_seen_s", "moderate_seen_s", "severe_seen_s"];
const BUDGETS = [
  ["latency_ms", "latency_budget", "ms"],
  ["energy_mj", "energy_budget", "mJ"],
];

/** The decision before the first one. Times that never happened are null. */
export function start(knob) {
  return {
    knob,
    reason: "start",
    turned_s: null,
    charger_seen_s: null,
    power_saver_seen_s: null,
    background_seen_s: null,
    light_seen_s: null,
    moderate_seen_s: null,
    severe_seen_s: null,
    step: 0,
    headroom_step: 0,
    limit: { ceiling: 1, changed_s: null, raised: false, failures: 0 },
    latency_budget: { ceiling: 1, changed_s: null, factor: 1 },
    energy_budget: { ceiling: 1, changed_s: null, factor: 1 },
  };
}

/**
 * The decision for a situation, given the previous one; nothing is changed in place.
 * situation: time_s, and what is known of level, charging, power_saver, heat, headroom, headroom_forecast, foreground,
 * p95_ms, latency_ms, energy_mj. table: corners of the cost over the knob by name, each from knob 0 to knob 1; or null.
 */
export function decide(policy, situation, previous, table = null) {
  const now = situation.time_s;
  const seen = whatIsSeen(policy, situation, previous);
  if (now - since(previous.turned_s) < policy.dwell_s) return seen;
  seen.limit = limitOf(policy, situation, previous, table);
  for (const [quantity, name] of BUDGETS) {
    seen[name] = budgetOf(policy, situation, previous, table, quantity, previous[name]);
  }
  const [knob, reason] = wanted(policy, situation, seen, table);
  return { ...seen, knob, reason, turned_s: knob === previous.knob ? previous.turned_s : now };
}

// --- what the device reports ---

function whatIsSeen(policy, situation, previous) {
  const now = situation.time_s;
  const headroomStep = headroomStepOf(policy, situation, previous.headroom_step);
  const heat = Math.max(Math.max(0, HEATS.indexOf(situation.heat ?? HEATS[0])), headroomStep);
  const seen = { ...previous, headroom_step: headroomStep };
  if (situation.charging) seen.charger_seen_s = now;
  if (situation.power_saver) seen.power_saver_seen_s = now;
  if (situation.foreground === false) seen.background_seen_s = now;
  for (let state = 1; state <= heat; state++) seen[HEAT_TIMES[state]] = now;
  seen.step = stepOf(levels(policy).map(({ below }) => below), policy.hysteresis, situation.level ?? null, previous.step);
  return seen;
}

function stepOf(bounds, hysteresis, level, step) {
  if (level === null) return Math.max(0, Math.min(step, bounds.length));
  const entered = count(bounds, (one) => level < one);
  const notLeft = count(bounds, (one) => level < one + hysteresis);
  return Math.max(entered, Math.min(step, notLeft));
}

function headroomStepOf(policy, situation, step) {
  const known = [situation.headroom, situation.headroom_forecast].filter((value) => value !== null && value !== undefined);
  if (!known.length) return 0;
  const bounds = [policy.light_headroom, policy.moderate_headroom, policy.severe_headroom];
  const used = Math.max(...known);
  const entered = count(bounds, (one) => used >= one);
  const notLeft = count(bounds, (one) => used >= one - policy.hysteresis);
  return Math.max(entered, Math.min(step, notLeft));
}

function levels(policy) {
  return policy.when.filter(({ below }) => below !== null && below !== undefined);
}

function count(values, test) {
  return values.filter(test).length;
}

function since(time) {
  return time ?? -Infinity;
}

function lasts(seen, now, wait) {
  return seen === now || now - since(seen) < wait;
}

// --- what follows from it ---

function wanted(policy, situation, seen, table) {
  const asked = [batteryKnob(policy, situation, seen)];
  for (const step of policy.when) {
    const reason = reasonOf(policy, step, seen, situation.time_s);
    if (reason) asked.push([step.knob, reason]);
  }
  asked.push(...ceilings(policy, seen, table));
  let [best, reason] = [bounded(policy, asked[0][0]), asked[0][1]];
  for (const [knob, why] of asked.slice(1)) {
    if (bounded(policy, knob) < best) [best, reason] = [bounded(policy, knob), why];
  }
  return [best, reason];
}

function batteryKnob(policy, situation, seen) {
  if (lasts(seen.charger_seen_s, situation.time_s, policy.dwell_s)) return [policy.charging_knob, "charging"];
  if (seen.step) {
    const held = levels(policy)[seen.step - 1];
    return [held.knob, `battery below ${Math.floor(100 * held.below + 0.5)}%`];
  }
  const known = situation.level !== null && situation.level !== undefined;
  return [policy.largest_knob, known ? "battery above all steps" : "nothing limits it"];
}

function reasonOf(policy, step, seen, now) {
  if (step.power_saver && lasts(seen.power_saver_seen_s, now, policy.dwell_s)) return "power saver";
  if (step.foreground === false && lasts(seen.background_seen_s, now, policy.dwell_s)) return "app in the background";
  if (!step.heat) return null;
  return lasts(seen[HEAT_TIMES[HEATS.indexOf(step.heat)]], now, policy.heat_recovery_s) ? `${step.heat} heat` : null;
}

function ceilings(policy, seen, table) {
  const found = [];
  if (policy.latency_p95_ms !== null) found.push([seen.limit.ceiling, `p95 held at ${short(policy.latency_p95_ms)} ms`]);
  for (const [quantity, name, unit] of BUDGETS) {
    if (policy[quantity] !== null && table?.[quantity]) {
      found.push([seen[name].ceiling, `budget of ${short(policy[quantity])} ${unit}`]);
    }
  }
  return found;
}

function bounded(policy, knob) {
  return Math.min(policy.largest_knob, Math.max(policy.smallest_knob, knob));
}

function short(number) {
  return String(Number(number.toPrecision(6)));
}

// --- the latency target ---

function limitOf(policy, situation, previous, table) {
  const p95 = situation.p95_ms ?? null;
  if (policy.latency_p95_ms === null || p95 === null) return previous.limit;
  const change = p95 > policy.latency_p95_ms ? lowered : raised;
  return change(policy, situation.time_s, p95, previous, table);
}

function lowered(policy, now, _p95, previous) {
  const limit = previous.limit;
  const ceiling = Math.max(policy.smallest_knob, rounded(previous.knob - policy.latency_notch));
  if (ceiling >= Math.min(limit.ceiling, previous.knob)) return limit;
  return { ceiling, changed_s: now, raised: false, failures: failuresOf(limit) };
}

function raised(policy, now, p95, previous, table) {
  let limit = previous.limit;
  if (now - since(limit.changed_s) < waitOf(policy, limit)) return limit;
  if (limit.raised) limit = { ...limit, raised: false, failures: 0 };
  const ceiling = Math.min(1, rounded(limit.ceiling + policy.latency_notch));
  const line = table?.latency_ms;
  const expected = line
    ? (p95 * interpolate(line, ceiling)) / interpolate(line, previous.knob)
    : (p95 * ceiling) / previous.knob;
  if (ceiling === limit.ceiling || expected > policy.latency_p95_ms * (1 - policy.latency_margin)) return limit;
  return { ceiling, changed_s: now, raised: true, failures: limit.failures };
}

function waitOf(policy, limit) {
  return policy.latency_recovery_s * 2 ** limit.failures;
}

function failuresOf(limit) {
  return limit.raised ? Math.min(MOST_DOUBLINGS, limit.failures + 1) : limit.failures;
}

function rounded(knob) {
  return Math.floor(knob * KNOB_UNIT + 0.5) / KNOB_UNIT;
}

// --- budgets ---

function budgetOf(policy, situation, previous, table, quantity, budget) {
  const asked = policy[quantity];
  const line = table?.[quantity];
  if (asked === null || !line) return budget;
  const observed = situation[quantity] ?? null;
  if (observed !== null) {
    const found = observed / interpolate(line, previous.knob);
    const ratio = Math.min(LARGEST_FACTOR, Math.max(1 / LARGEST_FACTOR, found));
    budget = { ...budget, factor: budget.factor + SMOOTHING * (ratio - budget.factor) };
  }
  const now = situation.time_s;
  const affordable = asked / budget.factor;
  const expected = interpolate(line, budget.ceiling);
  const ceiling = Math.max(1, Math.floor(BUDGET_UNIT * largestWithin(line, affordable) + TINY)) / BUDGET_UNIT;
  if (expected > BUDGET_HIGH * affordable && ceiling < budget.ceiling) {
    return { ceiling, changed_s: now, factor: budget.factor };
  }
  const waited = now - since(budget.changed_s) >= policy.latency_recovery_s;
  if (waited && expected < BUDGET_LOW * affordable && ceiling > budget.ceiling) {
    return { ceiling, changed_s: now, factor: budget.factor };
  }
  return budget;
}

/** The height of a line of corners [knob, cost] at a knob from 0 to 1. */
export function interpolate(line, knob) {
  for (let place = 1; place < line.length; place++) {
    const [[left, low], [right, high]] = [line[place - 1], line[place]];
    if (knob <= right) return low + ((high - low) * (knob - left)) / (right - left);
  }
  return line.at(-1)[1];
}

/** The largest knob at which the line is not above this cost. */
export function largestWithin(line, cost) {
  if (cost >= line.at(-1)[1]) return 1;
  let found = 0;
  for (let place = 1; place < line.length; place++) {
    const [[left, low], [right, high]] = [line[place - 1], line[place]];
    if (cost >= high) found = right;
    else if (cost >= low) return left + ((right - left) * (cost - low)) / (high - low);
    else return found;
  }
  return found;
}

/** Corners of the cost over the knob, from measured points [knob, cost] in rising order: `CostTable.line` in Python. */
export function lineOf(points) {
  const [intercept, slope] = fit(points);
  const costs = rising(points.map(([, cost]) => cost));
  const corners = [[0, Math.min(Math.max(0, intercept), costs[0])], ...points.map(([knob], place) => [knob, costs[place]])];
  const last = points.at(-1)[0];
  if (last < 1) corners.push([1, costs.at(-1) + Math.max(0, slope) * (1 - last)]);
  return corners;
}

function fit(points) {
  if (points.length === 1) return [0, points[0][1] / points[0][0]];
  const sum = (values) => values.reduce((total, value) => total + value, 0);
  const meanKnob = sum(points.map(([knob]) => knob)) / points.length;
  const meanCost = sum(points.map(([, cost]) => cost)) / points.length;
  const spread = sum(points.map(([knob]) => (knob - meanKnob) * (knob - meanKnob)));
  const slope = sum(points.map(([knob, cost]) => (knob - meanKnob) * (cost - meanCost))) / spread;
  return [meanCost - slope * meanKnob, slope];
}

/** The nearest series that never falls. */
function rising(costs) {
  const pools = [];
  for (const cost of costs) {
    pools.push([cost, 1]);
    while (pools.length > 1 && pools.at(-2)[0] > pools.at(-1)[0]) {
      const [low, few] = pools.pop();
      const [high, more] = pools.pop();
      pools.push([(low * few + high * more) / (few + more), few + more]);
    }
  }
  return pools.flatMap(([mean, size]) => Array(size).fill(mean));
}
