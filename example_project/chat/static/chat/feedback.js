// The user's ratings of answers: two buttons below each; the pressed one takes its rating back.

import { messages, sessions } from "./api.js";
import { announce, el, icon } from "./dom.js";

const RATINGS = [
  { value: 1, shape: "good", label: "Good answer" },
  { value: -1, shape: "bad", label: "Bad answer" },
];

export class Feedback {
  #given = new Map();
  #buttons = new Map();
  #busy = new Set();
  #onError;

  /** @param {(error: Error) => void} onError */
  constructor(onError) {
    this.#onError = onError;
  }

  /** Forgets the ratings: another chat is opened. */
  clear() {
    this.#given = new Map();
    this.#buttons.clear();
    this.#busy.clear();
  }

  /** Reads the user's ratings in a chat. */
  async load(id) {
    const given = this.#given;
    let page = await sessions.feedback(id);
    for (;;) {
      // Another chat was opened meanwhile.
      if (given !== this.#given) return;
      for (const each of page.results) {
        if (!this.#busy.has(each.message)) this.#set(each.message, each);
      }
      if (!page.next) return;
      page = await sessions.more(page.next);
    }
  }

  /** Draws the buttons of a message. */
  draw(message) {
    const buttons = RATINGS.map(({ value, shape, label }) =>
      el(
        "button",
        { type: "button", class: "icon rate", title: label, "aria-label": label, data: { value }, on: { click: () => this.#rate(message.id, value) } },
        icon(shape),
      ),
    );
    this.#buttons.set(message.id, buttons);
    this.#show(message.id);
    return el("div", { class: "rating", role: "group", "aria-label": "Rate this answer" }, ...buttons);
  }

  async #rate(id, value) {
    if (this.#busy.has(id)) return;
    const given = this.#given;
    const before = given.get(id);
    const after = before?.value === value ? null : { value, comment: before?.comment ?? "" };
    this.#busy.add(id);
    this.#set(id, after);
    try {
      if (after) await messages.rate(id, after);
      else await messages.unrate(id);
      announce(after ? "Thank you for your feedback." : "Your feedback was withdrawn.");
    } catch (error) {
      if (given !== this.#given) return;
      this.#set(id, before);
      announce(error.message);
      this.#onError(error);
    } finally {
      if (given === this.#given) this.#busy.delete(id);
    }
  }

  #set(id, feedback) {
    if (feedback) this.#given.set(id, feedback);
    else this.#given.delete(id);
    this.#show(id);
  }

  #show(id) {
    const value = this.#given.get(id)?.value;
    for (const button of this.#buttons.get(id) ?? []) {
      button.setAttribute("aria-pressed", String(Number(button.dataset.value) === value));
    }
  }
}
