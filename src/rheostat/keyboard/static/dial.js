// The knob: 270 degrees, from 0 % at the lower left to 100 % at the lower right.

import { Slider } from "./slider.js";

const SWEEP = 270;
const RADIUS = 84;
const SVG = "http://www.w3.org/2000/svg";

/** A slider that looks like a knob. describe(value): the text for screen readers. */
export function makeDial(element, describe) {
  const svg = shape("svg", { viewBox: "-100 -100 200 200", "aria-hidden": "true" });
  const value = shape("path", { class: "value" });
  const pointer = shape("line", { class: "pointer", x1: 0, y1: -62, x2: 0, y2: -48 });
  const text = shape("text", { y: 8 });
  const unit = shape("text", { class: "unit", y: 26 });
  unit.textContent = "of the cost";
  svg.append(shape("path", { class: "track", d: arc(0, 100) }), value, ...ticks());
  svg.append(shape("circle", { class: "cap", r: 66 }), pointer, text, unit);
  element.append(svg);

  const draw = (percent) => {
    value.setAttribute("d", arc(0, Math.max(0.01, percent)));
    pointer.setAttribute("transform", `rotate(${angle(percent)})`);
    text.textContent = `${percent} %`;
  };

  const fromPointer = (event, before) => {
    const box = element.getBoundingClientRect();
    const x = event.clientX - box.left - box.width / 2;
    const y = event.clientY - box.top - box.height / 2;
    if (Math.hypot(x, y) < 6) return before; // too close to the centre for an angle
    const degrees = (Math.atan2(x, -y) * 180) / Math.PI; // 0 at the top, -180 … 180
    const wanted = 50 + (degrees / SWEEP) * 100;
    // A press goes where it points; a drag stops at the gap at the bottom instead of jumping across it.
    const jumps = event.type === "pointermove" && Math.abs(wanted - before) > 55;
    return jumps ? (before > 50 ? 100 : 0) : wanted;
  };

  return new Slider(element, { fromPointer, draw, describe });
}

function ticks() {
  return Array.from({ length: 11 }, (_, place) =>
    shape("line", { class: "tick", x1: 0, y1: -97, x2: 0, y2: -93, transform: `rotate(${angle(10 * place)})` }),
  );
}

function angle(percent) {
  return (percent / 100 - 0.5) * SWEEP;
}

function arc(from, to) {
  const at = (percent) => {
    const radians = (angle(percent) * Math.PI) / 180;
    return `${(RADIUS * Math.sin(radians)).toFixed(2)} ${(-RADIUS * Math.cos(radians)).toFixed(2)}`;
  };
  return `M${at(from)}A${RADIUS} ${RADIUS} 0 ${angle(to) - angle(from) > 180 ? 1 : 0} 1 ${at(to)}`;
}

function shape(name, attributes) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}
