// A battery whose level is set by dragging.

import { Slider } from "./slider.js";

const LOW = 20;
const MIDDLE = 50;

/** A slider that looks like a battery. describe(value): the text for screen readers. */
export function makeBattery(element, describe) {
  const level = element.querySelector(".battery-level");
  const text = element.querySelector(".battery-text");
  const draw = (percent) => {
    level.style.width = `${percent}%`;
    text.textContent = `${percent} %`;
    element.dataset.state = percent < LOW ? "low" : percent < MIDDLE ? "middle" : "high";
  };
  const fromPointer = (event) => {
    const box = element.getBoundingClientRect();
    return (100 * (event.clientX - box.left)) / box.width;
  };
  return new Slider(element, { fromPointer, draw, describe });
}
