// The messages of a chat: each once, in their order, however often and from where they come.

import { el, icon, language, when } from "./dom.js";
import { drawPart } from "./parts.js";

/** The agents that chats of one agent have; the chat's heading says which SDK runs it. */
const OWN_AGENTS = new Set(["", "default", "concierge"]);

const isResult = (part) => part.kind === "tool_result";

/** Whether a message only brings the results of tools. */
const onlyResults = (message) => message.parts.length > 0 && message.parts.every(isResult);

const side = (message) => (message.role === "user" && !onlyResults(message) ? "user" : "assistant");

export const textOf = (message) =>
  message.parts
    .filter((part) => part.kind === "text")
    .map((part) => part.text)
    .join("\n");

export class Transcript {
  #list;
  #onRedact;
  #feedback;
  #messages = new Map();
  #rows = new Map();
  #calls = new Map();
  #results = new Map();
  #held = null;
  #pending = null;
  #answer = null;
  readOnly = false;

  constructor(list, { onRedact, feedback }) {
    this.#list = list;
    this.#onRedact = onRedact;
    this.#feedback = feedback;
  }

  clear() {
    for (const each of [this.#messages, this.#rows, this.#calls, this.#results]) each.clear();
    this.#held = this.#pending = this.#answer = null;
    this.#list.replaceChildren();
  }

  get isEmpty() {
    return this.#messages.size === 0 && !this.#pending && !this.#answer;
  }

  #sorted() {
    return [...this.#messages.keys()].sort();
  }

  get oldest() {
    return this.#sorted()[0] ?? null;
  }

  get newest() {
    return this.#sorted().at(-1) ?? null;
  }

  /** What is said, message by message. */
  get texts() {
    return [...this.#messages.values()].map(textOf);
  }

  has(id) {
    return this.#messages.has(id);
  }

  get(id) {
    return this.#messages.get(id);
  }

  /** Takes messages in; answers those that are new here, or changed. */
  apply(messages) {
    const taken = [];
    for (const message of messages) {
      const known = this.#messages.get(message.id);
      if (known && !isNewer(message, known)) continue;
      if (this.#held && message.role !== "user") this.#hold(message);
      else if (this.#held && onlyResults(message)) this.#hold(message);
      else {
        this.#put(message);
        if (!known) taken.push(message);
      }
    }
    this.#dress();
    return taken;
  }

  /** Takes an agent's messages away, from a position on. */
  removeFrom(agent, position) {
    for (const [id, message] of this.#messages) {
      if (message.agent !== agent || message.position < position) continue;
      this.#messages.delete(id);
      this.#rows.get(id)?.remove();
      this.#rows.delete(id);
    }
    this.#dress();
  }

  /** Keeps what agents store off the page, while the same is streaming onto it. */
  hold() {
    this.#held ??= new Map();
  }

  /** Shows what was held, in place of what streamed. */
  release() {
    const held = [...(this.#held?.values() ?? [])];
    this.#held = null;
    this.#answer?.remove();
    this.#answer = null;
    return this.apply(held);
  }

  #hold(message) {
    const known = this.#held.get(message.id);
    if (!known || isNewer(message, known)) this.#held.set(message.id, message);
  }

  /** Shows a message that is on its way to the server. */
  pend(message) {
    this.#pending = { message, after: this.newest ?? "" };
    this.#pending.row = this.#row({ ...message, id: "", created_at: new Date().toISOString() });
    this.#pending.row.classList.add("pending");
    this.#list.append(this.#pending.row);
    this.#dress();
  }

  /** Takes such a message away again: it was not taken. */
  unpend() {
    this.#pending?.row.remove();
    this.#pending = null;
    this.#dress();
  }

  /** Makes room for an answer that streams. */
  showAnswer(row) {
    this.#answer = row;
    this.#list.append(row);
    this.#dress();
  }

  #put(message) {
    const before = this.#messages.get(message.id);
    this.#messages.set(message.id, message);
    if (!before && this.#pending && message.role === "user" && message.id > this.#pending.after) {
      if (textOf(message).trim() === textOf(this.#pending.message).trim()) this.unpend();
    }
    const touched = new Set([message.id]);
    for (const part of message.parts) {
      if (!part.call_id) continue;
      if (part.kind === "tool_call") {
        this.#calls.set(part.call_id, message.id);
        touched.add(this.#results.get(part.call_id)?.message);
      } else if (isResult(part)) {
        this.#results.set(part.call_id, { message: message.id, part });
        touched.add(this.#calls.get(part.call_id));
      }
    }
    touched.delete(undefined);
    for (const id of touched) this.#draw(id);
  }

  #draw(id) {
    const message = this.#messages.get(id);
    const known = this.#rows.get(id);
    const row = this.#row(message);
    if (known) {
      const were = known.querySelectorAll("details");
      row.querySelectorAll("details").forEach((each, index) => (each.open = were[index]?.open ?? false));
      known.replaceWith(row);
    } else {
      // Nearly always it is the last.
      let next = this.#pending?.row ?? this.#answer;
      const later = this.#sorted().find((key) => key > id && this.#rows.has(key));
      if (later) next = this.#rows.get(later);
      this.#list.insertBefore(row, next ?? null);
    }
    this.#rows.set(id, row);
  }

  #row(message) {
    const parts = message.parts
      .filter((part) => !(isResult(part) && this.#calls.has(part.call_id)))
      .map((part) =>
        drawPart(part, {
          role: message.role,
          result: part.kind === "tool_call" ? this.#results.get(part.call_id)?.part : undefined,
        }),
      );
    if (message.corrupt) parts.push(el("p", { class: "document", text: gettext("This message cannot be read.") }));
    if (message.truncated) parts.push(el("p", { class: "document", text: interpolate(gettext("… the message has %s bytes, too many to show."), [message.size.toLocaleString(language)]) }));
    const row = el("li", { class: `message ${side(message)}`, data: { id: message.id, role: message.role } });
    if (message.id) row.id = `m-${message.id}`;
    row.hidden = parts.length === 0;
    row.append(this.#head(message), el("div", { class: "said" }, ...parts));
    if (message.id && message.role === "assistant" && textOf(message).trim()) row.append(this.#feedback.draw(message));
    return row;
  }

  #head(message) {
    const mine = side(message) === "user";
    const head = el("p", { class: "by" }, el("span", { class: "name", text: mine ? gettext("You") : OWN_AGENTS.has(message.agent) ? gettext("Agent") : message.agent }));
    head.append(when(message.created_at));
    if (message.redacted_at) head.append(el("span", { class: "chip warn", title: interpolate(gettext("Redacted %s"), [new Date(message.redacted_at).toLocaleString(language)]), text: gettext("redacted") }));
    if (mine && message.id && !this.readOnly) {
      const said = textOf(message).slice(0, 40);
      head.append(
        el("button", { type: "button", class: "quiet redact", "aria-label": said ? interpolate(gettext("Redact your message: %s"), [said]) : gettext("Redact your message"), on: { click: () => this.#onRedact(message.id) } }, icon("erase"), gettext("Redact")),
      );
    }
    return head;
  }

  /** Lets a message that goes on after the same voice do without a name of its own. */
  #dress() {
    let before = "";
    for (const row of this.#list.children) {
      if (row.hidden) continue;
      const voice = row.classList.contains("user") ? "user" : "assistant";
      row.classList.toggle("goes-on", voice === "assistant" && before === voice);
      before = voice;
    }
  }
}

function isNewer(message, known) {
  // The same revision may say more: it was too large to show, or its redaction was noticed.
  return message.revision > known.revision || (message.revision === known.revision && message.updated_at > known.updated_at);
}
