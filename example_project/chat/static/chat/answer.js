// An answer while it streams: only what changed is drawn again, once per frame.

import { el } from "./dom.js";
import { drawPart } from "./parts.js";
import { Answer, chunks } from "./stream.js";

export class StreamingAnswer {
  answer = new Answer();
  row;
  #said;
  #drawn = new Map();
  #stale = new Set();
  #frame = 0;
  #onDraw;

  constructor({ onDraw }) {
    this.#onDraw = onDraw;
    this.#said = el("div", { class: "said" }, el("p", { class: "thinking", role: "img", "aria-label": gettext("The agent is working") }, el("i"), el("i"), el("i")));
    this.row = el("li", { class: "message assistant streaming", "aria-busy": "true" }, el("p", { class: "by" }, el("span", { class: "name", text: gettext("Agent") })), this.#said);
  }

  /** Reads a response to its end. */
  async read(response) {
    for await (const chunk of chunks(response)) {
      const part = this.answer.take(chunk);
      if (part) this.#changed(part);
      if (this.answer.ended && chunk.type === "error") return;
    }
  }

  #changed(part) {
    this.#stale.add(part);
    this.#frame ||= requestAnimationFrame(() => this.#draw());
  }

  #draw() {
    this.#frame = 0;
    for (const part of this.#stale) {
      const drawn = drawPart(part, { role: "assistant", running: true });
      const known = this.#drawn.get(part);
      const open = known?.matches?.("details") ? known.open : known?.querySelector?.("details")?.open;
      if (known) known.replaceWith(drawn);
      else this.#said.insertBefore(drawn, this.#said.lastElementChild);
      const folded = drawn.matches("details") ? drawn : drawn.querySelector("details");
      if (folded && open) folded.open = true;
      this.#drawn.set(part, drawn);
    }
    this.#stale.clear();
    this.#onDraw();
  }
}
