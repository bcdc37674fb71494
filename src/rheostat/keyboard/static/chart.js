// The current place on the curve: perplexity against FLOPs if that was measured, otherwise the times seen on this page.

const SVG = "http://www.w3.org/2000/svg";
const BOX = { left: 40, right: 338, top: 16, bottom: 134 };

export class Chart {
  #svg;
  #place;
  #curve;
  #seen = new Map(); // share of the FLOPs -> ms

  /** curve: [{flops_fraction, perplexity}] or null. place: an element that describes the place in words. */
  constructor(svg, title, place, curve) {
    this.#svg = svg;
    this.#place = place;
    this.#curve = curve;
    title.textContent = curve ? "Perplexity against compute: lower is better" : "Time per query against compute, as you turn the knob";
  }

  /** Drop the times, which were measured with another engine. */
  forget() {
    this.#seen.clear();
  }

  /** Show a position: its share of the FLOPs, and the time of a query. */
  show(share, milliseconds) {
    this.#seen.set(share, milliseconds);
    const points = this.#curve
      ? this.#curve.map((point) => [point.flops_fraction, point.perplexity])
      : [...this.#seen].sort(([one], [other]) => one - other);
    const here = [share, this.#curve ? interpolate(points, share) : milliseconds];
    const label = this.#curve ? `perplexity ${here[1].toFixed(1)}` : `${format(here[1])} ms`;
    this.#draw(points, here, label);
    this.#place.textContent = `At ${Math.round(100 * share)} percent of the compute: ${label}.`;
  }

  #draw(points, here, label) {
    const values = [...points.map(([, value]) => value), here[1]];
    const largest = Math.max(...values) * 1.08;
    const smallest = this.#curve ? Math.min(...values) * 0.94 : 0;
    const x = (share) => BOX.left + share * (BOX.right - BOX.left);
    const y = (value) => BOX.bottom - ((value - smallest) / (largest - smallest || 1)) * (BOX.bottom - BOX.top);
    const parts = [axis(BOX.left, BOX.bottom, BOX.right, BOX.bottom), axis(BOX.left, BOX.top, BOX.left, BOX.bottom)];
    for (const share of [0, 0.25, 0.5, 0.75, 1]) parts.push(text(x(share), BOX.bottom + 15, `${100 * share} %`, "middle"));
    parts.push(text((BOX.left + BOX.right) / 2, BOX.bottom + 30, "share of the full model's FLOPs", "middle"));
    const lowest = this.#curve ? Math.min(...values) : 0;
    for (const value of [lowest, largest / 1.08]) parts.push(text(BOX.left - 6, y(value) + 4, format(value), "end"));
    if (this.#curve) parts.push(shape("polyline", { class: "line", points: points.map(([s, v]) => `${x(s)},${y(v)}`).join(" ") }));
    else parts.push(...points.map(([s, v]) => shape("circle", { class: "seen", cx: x(s), cy: y(v), r: 3 })));
    parts.push(shape("line", { class: "guide", x1: x(here[0]), y1: y(here[1]), x2: x(here[0]), y2: BOX.bottom }));
    parts.push(shape("circle", { class: "here", cx: x(here[0]), cy: y(here[1]), r: 7 }));
    const isRight = here[0] > 0.7;
    const above = y(here[1]) - 12 < BOX.top + 4 ? y(here[1]) + 22 : y(here[1]) - 12;
    parts.push(text(x(here[0]) + (isRight ? -8 : 8), above, label, isRight ? "end" : "start", "value"));
    this.#svg.replaceChildren(...parts);
  }
}

function interpolate(points, share) {
  const after = points.findIndex(([other]) => other >= share);
  if (after <= 0) return points[after < 0 ? points.length - 1 : 0][1];
  const [[x0, y0], [x1, y1]] = [points[after - 1], points[after]];
  return y0 + ((share - x0) / (x1 - x0)) * (y1 - y0);
}

/** A number with three significant digits. */
export function format(value) {
  if (value === 0) return "0";
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value >= 0.1 ? value.toFixed(2) : value.toFixed(3);
}

function axis(x1, y1, x2, y2) {
  return shape("line", { class: "axis", x1, y1, x2, y2 });
}

function text(x, y, content, anchor, kind = "label") {
  const element = shape("text", { x, y, class: kind, "text-anchor": anchor });
  element.textContent = content;
  return element;
}

function shape(name, attributes) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}
