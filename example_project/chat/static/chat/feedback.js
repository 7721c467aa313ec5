// The user's ratings of answers: two buttons below each, and a comment; the pressed button takes both back.

import { messages, sessions } from "./api.js";
import { announce, el, icon } from "./dom.js";
import { typed } from "./prose.js";

const RATINGS = [
  { value: 1, shape: "good", label: gettext("Good answer") },
  { value: -1, shape: "bad", label: gettext("Bad answer") },
];
const MOST = 4000;

export class Feedback {
  #given = new Map();
  #rows = new Map();
  #busy = new Set();
  #changes = 0;
  #onError;

  /** @param {(error: Error) => void} onError */
  constructor(onError) {
    this.#onError = onError;
  }

  /** Forgets the ratings: another chat is opened. */
  clear() {
    this.#given = new Map();
    this.#rows.clear();
    this.#busy = new Set();
  }

  /** Reads the user's ratings in a chat, again if one is changed here meanwhile. */
  async load(id) {
    const given = this.#given;
    let found, changes;
    do {
      changes = this.#changes;
      found = new Map();
      let page = await sessions.feedback(id);
      for (;;) {
        // Another chat was opened meanwhile.
        if (given !== this.#given) return;
        for (const each of page.results) found.set(each.message, each);
        if (!page.next) break;
        page = await sessions.more(page.next);
      }
    } while (changes !== this.#changes);
    for (const each of new Set([...given.keys(), ...found.keys()])) {
      if (!this.#busy.has(each)) this.#set(each, found.get(each));
    }
  }

  /** Draws the buttons and the comment of a message; the same again, so that a draft stays. */
  draw(message) {
    const { id } = message;
    if (!this.#rows.has(id)) {
      const buttons = RATINGS.map(({ value, shape, label }) =>
        el("button", { type: "button", class: "icon rate", title: label, "aria-label": label, data: { value }, on: { click: () => this.#rate(id, value) } }, icon(shape)),
      );
      const below = el("div", { class: "comment" });
      const drawn = el("div", { class: "rating", role: "group", "aria-label": gettext("Rate this answer") }, ...buttons, below);
      this.#rows.set(id, { drawn, buttons, below, form: null });
      this.#show(id);
    }
    return this.#rows.get(id).drawn;
  }

  async #rate(id, value) {
    const before = this.#given.get(id);
    if (before?.value === value) return void this.#save(id, null, gettext("Your feedback was withdrawn."));
    const after = { value, comment: before?.comment ?? "" };
    const isSaved = await this.#save(id, after, gettext("Thank you for your feedback. You can add a comment."));
    if (isSaved && !after.comment && !this.#rows.get(id)?.form) this.#write(id);
  }

  /** Stores feedback, or takes it back; answers whether it did, and the chat is still open. */
  async #save(id, after, said) {
    if (this.#busy.has(id)) return false;
    const [given, busy] = [this.#given, this.#busy];
    const before = given.get(id);
    this.#changes += 1;
    busy.add(id);
    this.#set(id, after);
    try {
      // The server may have masked something in the comment.
      const saved = after ? await messages.rate(id, after) : await messages.unrate(id);
      if (given === this.#given) this.#set(id, saved);
      announce(said);
      return given === this.#given;
    } catch (error) {
      if (given === this.#given) {
        this.#set(id, before);
        announce(error.message);
        this.#onError(error);
      }
      return false;
    } finally {
      this.#changes += 1;
      busy.delete(id);
    }
  }

  #set(id, feedback) {
    if (feedback) this.#given.set(id, feedback);
    else this.#given.delete(id);
    this.#show(id);
  }

  #show(id) {
    const row = this.#rows.get(id);
    if (!row) return;
    const feedback = this.#given.get(id);
    for (const button of row.buttons) {
      button.setAttribute("aria-pressed", String(Number(button.dataset.value) === feedback?.value));
    }
    if (row.form && feedback) return;
    row.form = null;
    // An event about the feedback draws it anew, perhaps under the focus.
    const isFocused = row.below.contains(document.activeElement);
    const change = (options, ...inside) => el("button", { type: "button", ...options, on: { click: () => this.#write(id).focus() } }, ...inside);
    if (!feedback) row.below.replaceChildren();
    else if (!feedback.comment) row.below.replaceChildren(change({ class: "quiet", text: gettext("Add a comment") }));
    else row.below.replaceChildren(typed(feedback.comment), change({ class: "icon", title: gettext("Change"), "aria-label": gettext("Change your comment") }, icon("pencil")));
    if (isFocused) row.below.querySelector("button")?.focus();
  }

  /** Shows the field for a comment. */
  #write(id) {
    const row = this.#rows.get(id);
    const field = el("textarea", { id: `comment-${id}`, rows: 2, maxlength: MOST });
    field.value = this.#given.get(id)?.comment ?? "";
    const close = () => {
      row.form = null;
      this.#show(id);
      row.below.querySelector("button")?.focus();
    };
    const send = async () => {
      const { value, comment } = this.#given.get(id);
      if (field.value.trim() === comment || (await this.#save(id, { value, comment: field.value.trim() }, gettext("Your comment was saved.")))) close();
    };
    row.form = el(
      "form",
      {
        on: {
          submit: (event) => {
            event.preventDefault();
            send();
          },
          keydown: (event) => {
            if (event.key === "Escape") close();
            else if (event.key === "Enter" && event.target === field && !event.shiftKey && !event.isComposing) send();
            else return;
            event.preventDefault();
            // Esc would also stop an answer.
            event.stopPropagation();
          },
        },
      },
      el("label", { for: field.id, text: gettext("Comment (optional)") }),
      field,
      el("div", {}, el("button", { class: "primary", text: gettext("Save comment") }), el("button", { type: "button", class: "quiet", text: gettext("Cancel"), on: { click: close } })),
    );
    row.below.replaceChildren(row.form);
    row.form.scrollIntoView({ block: "nearest" });
    return field;
  }
}
