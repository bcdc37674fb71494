// The trade-off of the knob: the time saved at each position, measured on this device, beside the quality lost, measured when
// the model was made. Nothing is shown for a position that was not measured there: no value is guessed from its neighbours.
//
// The knob moves in whole percentages, and several of them may serve one position. So quality is matched by the cost of the
// position that is served, never by the number on the knob.

const SAME = 1e-5; // costs closer than this are one position
const ROWS = 7; // of the table, at most
const WITHOUT_CURVE = [100, 80, 60, 40, 20, 10];

/** A number with three significant digits. */
export function format(value) {
  if (value === 0) return "0";
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value >= 0.1 ? value.toFixed(2) : value.toFixed(3);
}

function percentText(share) {
  const percent = 100 * share;
  return `${percent > 0 && percent < 9.95 ? percent.toFixed(1) : percent.toFixed(0)}\u202f%`;
}

export class TradeOffTable {
  #body;
  #curve; // percent -> {cost, perplexity, …} of the position that is served there
  #measured; // [percent, point], by cost: a percentage that serves each point
  #costs; // percent -> the share of the cost that is spent there
  #times = new Map(); // percent -> ms, all of one run or scaled to it
  #turn;
  #percents;
  #rows = new Map(); // percent -> its elements

  /** curve: of model.json, or null. costs: [[percent, cost], …]. turn(percent): called when a row is chosen. */
  constructor(body, curve, costs, turn) {
    this.#body = body;
    this.#turn = turn;
    this.#costs = new Map(costs);
    const found = costs.map(([percent, cost]) => [percent, curve?.find((point) => Math.abs(point.cost - cost) < SAME)]);
    this.#curve = new Map(found.filter(([, point]) => point));
    const points = [...new Set(this.#curve.values())];
    const serving = (wanted) => [...this.#curve].filter(([, point]) => point === wanted).map(([percent]) => percent);
    this.#measured = points.map((point) => [roundest(serving(point)), point]).sort(([one], [other]) => other - one);
    const percents = this.#measured.map(([percent]) => percent);
    this.#percents = percents.length ? spread(percents) : WITHOUT_CURVE.filter((percent) => this.#costs.has(percent));
  }

  /** The positions of the table. */
  get percents() {
    return this.#percents;
  }

  /** Forget the times, which are of another engine. */
  forget() {
    this.#times.clear();
  }

  /** Add the times of one run. Those of a later run are scaled, so that the whole model's time stays the same. */
  add(times) {
    const scale = this.#times.has(100) && times[100] ? this.#times.get(100) / times[100] : 1;
    for (const [percent, ms] of Object.entries(times)) this.#times.set(Number(percent), ms * scale);
  }

  time(percent) {
    return this.#times.get(percent);
  }

  /** The share of the time that a position saves; undefined if it was not measured. */
  saved(percent) {
    const [here, whole] = [this.#times.get(percent), this.#times.get(100)];
    return here !== undefined && whole ? Math.max(0, 1 - here / whole) : undefined;
  }

  /** How much more perplexity a position has, as a share; undefined if it was not measured there. */
  lost(percent) {
    const [here, whole] = [this.#curve.get(percent), this.#curve.get(100)];
    return here && whole ? Math.max(0, here.perplexity / whole.perplexity - 1) : undefined;
  }

  /** What is known about the quality of a position, in words. */
  quality(percent) {
    if (!this.#curve.size) return "not measured for this model";
    const here = this.#curve.get(percent);
    if (here) return `perplexity ${here.perplexity.toFixed(1)}`;
    const cost = this.#costs.get(percent);
    const above = this.#measured.findLast(([, point]) => point.cost > cost);
    const below = this.#measured.find(([, point]) => point.cost < cost);
    if (above && below) return `between those of ${below[0]}\u202f% and ${above[0]}\u202f%`;
    return `measured from ${this.#measured.at(-1)[0]}\u202f% to ${this.#measured[0][0]}\u202f% only`;
  }

  text(share) {
    return share === undefined ? "–" : percentText(share);
  }

  /** Draw the table; the row of the current position is marked. Rows stay the same elements, so that a button keeps the focus. */
  draw(current) {
    const most = Math.max(0.05, ...this.#percents.map((percent) => this.lost(percent) ?? 0));
    if (!this.#rows.size) {
      this.#percents.forEach((percent) => this.#rows.set(percent, this.#makeRow(percent)));
      this.#body.replaceChildren(...[...this.#rows.values()].map(({ row }) => row));
    }
    for (const [percent, { row, gain, loss }] of this.#rows) {
      if (percent === current) row.setAttribute("aria-current", "true");
      else row.removeAttribute("aria-current");
      const isWhole = percent === 100;
      const [saved, lost, time] = [this.saved(percent), this.lost(percent), this.time(percent)];
      const perplexity = this.#curve.get(percent)?.perplexity;
      fill(gain, saved, isWhole ? "" : this.text(saved), time === undefined ? "" : `${format(time)}\u202fms`);
      fill(loss, (lost ?? 0) / most, isWhole ? "" : this.text(lost), perplexity === undefined ? "–" : perplexity.toFixed(1));
    }
  }

  #makeRow(percent) {
    const row = document.createElement("tr");
    const head = document.createElement("th");
    head.scope = "row";
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = `${percent}\u202f%`;
    button.setAttribute("aria-label", `Turn the knob to ${percent} percent`);
    button.addEventListener("click", () => this.#turn(percent));
    head.append(button);
    const [gain, loss] = [makeCell("gain"), makeCell("loss")];
    row.append(head, gain, loss);
    return { row, gain, loss };
  }
}

/** Why not an n-gram? Its row below those of the knob, and what a table of times cannot say. bytes: of the model file. */
export function showNGram(foot, note, ngram, curve, bytes) {
  foot.hidden = note.hidden = !ngram;
  if (!ngram) return;
  const [head, time, loss] = foot.rows[0].cells;
  head.textContent = ngram.name;
  const [, ms] = time.children;
  ms.textContent = `${format(ngram.latency_ms)}\u202fms\u202f*`;
  const [lost, perplexity] = loss.children;
  lost.textContent = percentText(ngram.perplexity / curve.at(-1).perplexity - 1);
  perplexity.textContent = ngram.perplexity.toFixed(1);
  const exact = (share) => `${(100 * share).toFixed(1)}\u202f%`;
  const shares = curve.map((point) => point.keystrokes_saved_share).filter((share) => share);
  const ours = shares.length ? `; this model saves ${exact(Math.min(...shares))} to ${exact(Math.max(...shares))}` : "";
  note.textContent =
    `Why not an n-gram? The ${ngram.name} of the same training text has no knob and takes ${format(ngram.size_bytes / 1e6)} MB ` +
    `instead of ${format(bytes / 1e6)} MB. It saves ${exact(ngram.keystrokes_saved_share)} of the keystrokes${ours}. ` +
    `* In Python on another machine (${ngram.machine}), so it cannot be compared with the times above.`;
}

/** A bar with its figure, and a smaller one after it. */
function makeCell(kind) {
  const cell = document.createElement("td");
  const bar = document.createElement("span");
  bar.className = `bar ${kind}`;
  cell.append(bar, document.createElement("strong"), document.createElement("small"));
  return cell;
}

/** share: of the bar's full length. */
function fill(cell, share, figure, small) {
  const [bar, strong, note] = cell.children;
  bar.style.setProperty("--share", share ?? 0);
  strong.textContent = figure;
  note.textContent = small;
}

/** The one of these percentages that is easiest to remember. */
function roundest(percents) {
  return percents.find((one) => one % 10 === 0) ?? percents.find((one) => one % 5 === 0) ?? percents.at(-1);
}

/** At most ROWS of the measured positions, spread evenly, with both ends. */
function spread(percents) {
  if (percents.length <= ROWS) return percents;
  const step = (percents.length - 1) / (ROWS - 1);
  return Array.from({ length: ROWS }, (_, place) => percents[Math.round(place * step)]);
}
