// How the page shows figures, and items that can be forgotten.

import { format } from "./trade_off.js";

export function flopsText(flops) {
  if (flops >= 1e9) return `${format(flops / 1e9)} GFLOPs`;
  return flops >= 1e5 ? `${format(flops / 1e6)} MFLOPs` : `${format(flops / 1e3)} kFLOPs`;
}

export function bytesText(bytes) {
  return bytes >= 1e5 ? `${format(bytes / 1e6)} MB` : `${format(bytes / 1e3)} kB`;
}

export function energyText(millijoules) {
  return millijoules >= 0.1 ? `${format(millijoules)} mJ` : `${format(millijoules * 1e3)} µJ`;
}

/** A figure with its unit in small letters, and a note below it. */
export function showFigure(name, figure, note) {
  const [number, unit = ""] = figure.split(" ");
  const small = document.createElement("small");
  small.textContent = unit;
  document.getElementById(`figure-${name}`).replaceChildren(number, unit ? "\u202f" : "", small);
  document.getElementById(`figure-${name}-note`).textContent = note;
}

/** An item of a list. forget(): called by its button; null = no button. note: in small letters after the text. */
export function makeItem(text, forget = null, note = "") {
  const item = document.createElement("li");
  item.append(text);
  if (note) {
    const small = document.createElement("small");
    small.textContent = note;
    item.append(small);
  }
  if (!forget) return item;
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "×";
  button.setAttribute("aria-label", `Forget ${text}`);
  button.addEventListener("click", forget);
  item.append(button);
  return item;
}
