// A phone keyboard made of buttons, for touch, mouse and arrow keys. Knows keys and where fingers come down on them; the caller
// says what they do.

import { DEFAULT_LAYOUT, KEY_LAYOUTS } from "./tables.js";

const LETTERS = ["qwertyuiop", "asdfghjkl", "⇧zxcvbnm⌫", "№,␣.⏎"];
const SIGNS = ["1234567890", "-/:;()$&@", "⇧.,?!'\"+⌫", "№,␣.⏎"];
const SPECIAL = {
  "⇧": { label: "Shift", wide: 3, path: "M12 4 4 12h4v7h8v-7h4z" },
  "⌫": { label: "Delete", wide: 3, path: "M9 5h11a1 1 0 0 1 1 1v12a1 1 0 0 1-1 1H9l-6-7zm3 4 6 6m0-6-6 6" },
  "№": { label: "Numbers and signs", wide: 3, text: "?123" },
  "␣": { label: "Space", wide: 10, text: "space" },
  "⏎": { label: "New line", wide: 3, path: "M20 6v6H5m5-5-5 5 5 5" },
};
const NAMES = { ",": "Comma", ".": "Full stop", "'": "Apostrophe", '"': "Quotation mark", "-": "Hyphen", "/": "Slash" };
const REPEAT_AFTER_MS = 450;
const REPEAT_MS = 70;
const DRIFT_PX = 20; // a finger that goes up this near to where it came down stayed on its key
const TWICE_MS = 400; // two taps on shift within this time lock the capitals

const CENTRES = new Map(KEY_LAYOUTS[DEFAULT_LAYOUT].keys.map(([letter, x, y]) => [letter, [x, y]]));

export class Keys {
  #element;
  #actions;
  #signs = false;
  #shift = false;
  #locked = false; // capitals until shift is tapped again
  #shiftTapped = -Infinity; // when, in ms
  #repeating = 0;
  #downs = new Map(); // pointer -> the key that it came down on, and where

  /**
   * actions: {insert(character, tap), deleteBackward(), lock()}. tap: [x, y] in keys of the layout; null without a pointer. lock:
   * capitals were locked or unlocked.
   */
  constructor(element, actions) {
    this.#element = element;
    this.#actions = actions;
    element.addEventListener("pointerdown", (event) => this.#down(event));
    for (const kind of ["pointerup", "pointercancel", "pointerleave"]) {
      element.addEventListener(kind, () => clearTimeout(this.#repeating));
    }
    element.addEventListener("click", (event) => this.#click(event));
    element.addEventListener("keydown", (event) => this.#move(event));
    this.#draw();
  }

  /** Whether all letters are capitals until shift is tapped again. */
  get isLocked() {
    return this.#locked;
  }

  get shift() {
    return this.#shift;
  }

  /** Whether the next letter is a capital, as at the start of a sentence. Caps lock overrides it. */
  set shift(wanted) {
    if (wanted === this.#shift || this.#locked) return;
    this.#shift = wanted;
    for (const key of this.#element.querySelectorAll("button")) this.#label(key);
  }

  #draw() {
    const place = this.#place();
    const rows = (this.#signs ? SIGNS : LETTERS).map((row) => this.#row([...row]));
    this.#element.replaceChildren(...rows);
    this.#element.querySelectorAll("button")[Math.max(0, place)].tabIndex = 0;
    if (place >= 0) this.#element.querySelector('[tabindex="0"]').focus();
  }

  /** The index of the key that has the focus; -1 if none has. */
  #place() {
    return [...this.#element.querySelectorAll("button")].indexOf(document.activeElement);
  }

  #row(characters) {
    const row = document.createElement("div");
    row.className = "row";
    row.append(...characters.map((character, place) => this.#key(character, place === 0 && characters.length === 9)));
    return row;
  }

  #key(character, isInset) {
    const key = document.createElement("button");
    const special = SPECIAL[character];
    key.type = "button";
    key.tabIndex = -1;
    key.dataset.key = character;
    key.className = special ? `key special wide-${special.wide}` : "key";
    if (character === "␣") key.classList.remove("special");
    if (isInset && !special) key.classList.add("inset");
    if (special?.path) key.append(drawing(special.path));
    else key.textContent = special?.text ?? character;
    if (special || NAMES[character]) key.setAttribute("aria-label", special?.label ?? NAMES[character]);
    this.#label(key);
    return key;
  }

  #label(key) {
    const { key: character } = key.dataset;
    if (character === "⇧") {
      key.setAttribute("aria-pressed", String(this.#shift));
      key.setAttribute("aria-label", this.#locked ? "Caps lock" : "Shift");
      key.classList.toggle("locked", this.#locked);
    }
    else if (character === "№") {
      key.textContent = this.#signs ? "abc" : "?123";
      key.setAttribute("aria-label", this.#signs ? "Letters" : "Numbers and signs");
    } else if (!SPECIAL[character]) key.textContent = this.#shift ? character.toUpperCase() : character;
  }

  /** The key at a place on the screen; between keys, the nearest one. */
  #nearest({ clientX: x, clientY: y }) {
    const keys = [...this.#element.querySelectorAll("button")];
    const distances = keys.map((key) => {
      const { left, right, top, bottom } = key.getBoundingClientRect();
      return Math.hypot(Math.max(left - x, 0, x - right), Math.max(top - y, 0, y - bottom));
    });
    return keys[distances.indexOf(Math.min(...distances))];
  }

  #down(event) {
    const key = this.#nearest(event); // not the target: browsers guess one for a finger between two keys
    event.preventDefault(); // the text keeps the focus and the cursor
    this.#downs.set(event.pointerId, { key, x: event.clientX, y: event.clientY });
    if (key.dataset.key !== "⌫") return;
    const again = () => {
      this.#actions.deleteBackward();
      this.#repeating = setTimeout(again, REPEAT_MS);
    };
    clearTimeout(this.#repeating);
    this.#repeating = setTimeout(again, REPEAT_AFTER_MS);
  }

  #click(event) {
    const down = this.#downs.get(event.pointerId);
    clearTimeout(this.#repeating);
    this.#downs.delete(event.pointerId);
    const key = down ? down.key : event.target.closest("button"); // without a pointer: Enter, a screen reader
    const isLeft = down && !key.contains(event.target) && Math.hypot(event.clientX - down.x, event.clientY - down.y) > DRIFT_PX;
    if (!key || isLeft) return;
    const { key: character } = key.dataset;
    const tap = this.#tapOn(key, down);
    if (character === "⇧") this.#tapShift(event.timeStamp);
    else if (character === "№") {
      this.#signs = !this.#signs;
      this.#draw();
    } else if (character === "⌫") this.#actions.deleteBackward();
    else this.#actions.insert({ "␣": " ", "⏎": "\n" }[character] ?? key.textContent, tap);
  }

  /** Where a finger came down, in keys of the layout: the key's centre, and how far beside it on the screen. */
  #tapOn(key, down) {
    const centre = CENTRES.get(key.dataset.key);
    if (!centre || !down) return null;
    const { x: across, y: along } = this.#pitch();
    const here = middleOf(key);
    return [centre[0] + (down.x - here.x) / across, centre[1] + (down.y - here.y) / along];
  }

  /** The distance between two keys beside each other, and between two rows. */
  #pitch() {
    const [first, second, below] = ["q", "w", "a"].map((letter) => middleOf(this.#element.querySelector(`[data-key="${letter}"]`)));
    return { x: second.x - first.x, y: below.y - first.y };
  }

  #tapShift(now) {
    const wasLocked = this.#locked;
    const isTwice = now - this.#shiftTapped < TWICE_MS && !wasLocked;
    this.#shiftTapped = wasLocked ? -Infinity : now;
    this.#locked = isTwice;
    this.#shift = isTwice || !this.#shift;
    for (const key of this.#element.querySelectorAll("button")) this.#label(key);
    if (wasLocked !== isTwice) this.#actions.lock();
  }

  #move(event) {
    const rows = [...this.#element.children].map((row) => [...row.children]);
    const row = rows.findIndex((keys) => keys.includes(event.target));
    const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    if (row < 0 || !(event.key in steps)) return;
    event.preventDefault();
    const [down, right] = steps[event.key];
    const keys = rows[(row + down + rows.length) % rows.length];
    const share = rows[row].indexOf(event.target) / Math.max(1, rows[row].length - 1);
    const place = down ? Math.round(share * (keys.length - 1)) : rows[row].indexOf(event.target) + right;
    event.target.tabIndex = -1;
    const next = keys[(place + keys.length) % keys.length];
    next.tabIndex = 0;
    next.focus();
  }
}

function middleOf(key) {
  const { left, top, width, height } = key.getBoundingClientRect();
  return { x: left + width / 2, y: top + height / 2 };
}

function drawing(path) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  const line = document.createElementNS("http://www.w3.org/2000/svg", "path");
  line.setAttribute("d", path);
  svg.append(line);
  return svg;
}
