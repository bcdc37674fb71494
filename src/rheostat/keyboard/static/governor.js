// The governor's policy applied to a battery: rheostat/governor/decision.py, for a page without a server.
//
// The Python module is the definition and explains why the knob does not flap; tests/browser checks that both decide the
// same. Only the battery counts here: latency targets need a device that keeps its own times.

/** What the first decision follows. */
export function startingDecision(knob) {
  return { knob, reason: "start", turned: -Infinity, chargerSeen: -Infinity, step: 0 };
}

/** The decision for a moment. policy: of model.json. situation: {time (s), level (0 … 1), charging}. */
export function decide(policy, { time, level, charging }, previous) {
  const seen = {
    ...previous,
    chargerSeen: charging ? time : previous.chargerSeen,
    step: stepAt(policy, level, previous.step),
  };
  if (time - previous.turned < policy.dwell_s) return seen;
  const { knob: wanted, reason } = powerKnob(policy, seen, time);
  const knob = Math.min(policy.largest_knob, Math.max(policy.smallest_knob, wanted));
  return { ...seen, knob, reason, turned: knob === previous.knob ? previous.turned : time };
}

/** How many of the policy's steps apply. A step is left only above its level and the hysteresis. */
function stepAt({ when, hysteresis }, level, before) {
  const entered = when.filter(({ below }) => level < below).length;
  const notLeft = when.filter(({ below }) => level < below + hysteresis).length;
  return Math.max(entered, Math.min(before, notLeft));
}

function powerKnob(policy, { chargerSeen, step }, time) {
  if (chargerSeen === time || time - chargerSeen < policy.dwell_s) return { knob: policy.charging_knob, reason: "charging" };
  if (!step) return { knob: policy.largest_knob, reason: "battery above all steps" };
  const { knob, below } = policy.when[step - 1];
  return { knob, reason: `battery below ${Math.round(100 * below)}%` };
}
