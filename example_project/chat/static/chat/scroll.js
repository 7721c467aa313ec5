// Where the conversation is scrolled to: its end, as long as that is where somebody reads.

import { byId } from "./dom.js";

const NEAR = 80;

export class Scroll {
  #box = byId("scroll");
  #button = byId("to-end");
  #atEnd = true;

  constructor() {
    this.#box.addEventListener("scroll", () => {
      this.#atEnd = this.#box.scrollHeight - this.#box.scrollTop - this.#box.clientHeight < NEAR;
      if (this.#atEnd) this.#button.hidden = true;
    });
    this.#button.addEventListener("click", () => this.toEnd());
    // Pictures, and what is unfolded, make it longer later.
    new ResizeObserver(() => this.#atEnd && this.#jump()).observe(this.#box.firstElementChild);
  }

  toEnd() {
    this.#atEnd = true;
    this.#button.hidden = true;
    this.#jump();
  }

  /** Stays at the end; or, where somebody reads further up, says that there is something new. */
  follow(isNew = false) {
    if (this.#atEnd) this.#jump();
    else if (isNew) this.#button.hidden = false;
  }

  /** Does something to what is above without moving what is read. */
  keep(change) {
    const below = this.#box.scrollHeight - this.#box.scrollTop;
    change();
    this.#box.scrollTop = this.#box.scrollHeight - below;
  }

  #jump() {
    this.#box.scrollTop = this.#box.scrollHeight;
  }
}
