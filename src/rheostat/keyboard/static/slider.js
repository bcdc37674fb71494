// What the knob and the battery share: a whole percentage, changed by pointer and keys, and read out by screen readers.

const KEYS = { ArrowUp: 1, ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1, PageUp: 10, PageDown: -10 };

/** Fires "input" when the user changes the value, not when `value` is set by the program. */
export class Slider extends EventTarget {
  #value = 100;
  #smallest = 0;

  /** fromPointer(event) returns a value; draw(value) shows it; describe(value) returns it in words. */
  constructor(element, { fromPointer, draw, describe }) {
    super();
    this.element = element;
    Object.assign(this, { fromPointer, draw, describe });
    element.addEventListener("pointerdown", (event) => this.#start(event));
    element.addEventListener("keydown", (event) => this.#key(event));
  }

  get value() {
    return this.#value;
  }

  set value(value) {
    this.#value = Math.round(Math.min(100, Math.max(this.#smallest, value)));
    this.refresh();
  }

  set smallest(smallest) {
    this.#smallest = smallest;
    this.element.setAttribute("aria-valuemin", smallest);
    this.value = this.#value;
  }

  get smallest() {
    return this.#smallest;
  }

  /** Show the value again, after something that its description mentions has changed. */
  refresh() {
    this.element.setAttribute("aria-valuenow", this.#value);
    this.element.setAttribute("aria-valuetext", this.describe(this.#value));
    this.draw(this.#value);
  }

  #change(value) {
    const before = this.#value;
    this.value = value;
    if (this.#value !== before) this.dispatchEvent(new Event("input"));
  }

  #start(event) {
    if (event.button !== 0) return;
    event.preventDefault();
    this.element.focus({ preventScroll: true });
    this.element.setPointerCapture(event.pointerId);
    const move = (moved) => this.#change(this.fromPointer(moved, this.#value));
    const end = () => {
      this.element.removeEventListener("pointermove", move);
      for (const kind of ["pointerup", "pointercancel"]) this.element.removeEventListener(kind, end);
    };
    this.element.addEventListener("pointermove", move);
    for (const kind of ["pointerup", "pointercancel"]) this.element.addEventListener(kind, end);
    move(event);
  }

  #key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const ends = { Home: this.#smallest, End: 100 };
    const value = ends[event.key] ?? (event.key in KEYS ? this.#value + KEYS[event.key] : null);
    if (value === null) return;
    event.preventDefault();
    this.#change(value);
  }
}
