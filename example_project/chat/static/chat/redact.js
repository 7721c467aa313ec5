// Redacts a message or a text after a preview.

import { messages, sessions } from "./api.js";
import { el } from "./dom.js";
import { question } from "./dialogs.js";
import { textOf } from "./transcript.js";

const MOST = 30;

/**
 * Asks what to redact, shows a preview, and asks for the reason.
 *
 * @param {object} message The message.
 * @param {{texts: string[], done: () => Promise<void>}} chat Its texts, and what to call afterwards.
 */
export function redact(message, { texts, done }) {
  const marked = selectedIn(message);
  const text = el("input", { id: "redact-text", name: "text", maxlength: "1000", autocomplete: "off", value: marked });
  const reason = el("textarea", { id: "redact-reason", name: "reason", rows: "2", maxlength: "1000" });
  const whole = el("input", { type: "radio", name: "what", value: "whole" });
  const part = el("input", { type: "radio", name: "what", value: "text", checked: true });
  const textRow = el("p", { class: "under" }, el("label", { for: "redact-text", text: gettext("The text") }), text);
  const shown = el("div", { class: "preview", role: "status" });
  const reasonRow = el("p", { hidden: true }, el("label", { for: "redact-reason", text: gettext("Reason (stored in the audit trail)") }), reason);
  let seen = "";

  const scope = () => (part.checked ? { find: text.value } : {});
  const send = (more) => {
    const body = { ...scope(), ...more };
    return part.checked ? sessions.redact(message.session, body) : messages.redact(message.id, body);
  };
  const reset = () => {
    seen = "";
    textRow.hidden = !part.checked;
    reasonRow.hidden = true;
    reason.required = false;
    shown.replaceChildren();
    asked.go.textContent = gettext("Preview");
    asked.go.className = "primary";
  };

  const asked = question({
    title: gettext("Redact your message"),
    confirm: gettext("Preview"),
    body: [
      el("fieldset", { class: "choice" }, el("legend", { class: "unseen", text: gettext("What") }), el("label", {}, part, " ", gettext("A text, everywhere in this chat")), textRow, el("label", {}, whole, " ", gettext("The whole message"))),
      shown,
      reasonRow,
    ],
    async act() {
      if (part.checked && !text.value.trim()) {
        text.focus();
        throw new Error(gettext("Enter the text to redact."));
      }
      if (seen === JSON.stringify(scope())) {
        await send({ reason: reason.value, dry_run: false });
        await done();
        return true;
      }
      const found = await send({ dry_run: true });
      shown.replaceChildren(...preview(found, part.checked ? null : message, texts));
      if (!found.hits.length) return false;
      seen = JSON.stringify(scope());
      reasonRow.hidden = false;
      reason.required = true;
      asked.go.textContent = gettext("Redact permanently");
      asked.go.className = "danger";
      reason.focus();
      return false;
    },
  });
  for (const each of [whole, part]) each.addEventListener("change", reset);
  text.addEventListener("input", reset);
  text.focus();
}

/** What is marked on the page, if it is of this message. */
function selectedIn(message) {
  const marked = String(getSelection() ?? "").trim();
  return marked && textOf(message).includes(marked) ? marked : "";
}

function preview(found, message, texts) {
  const hits = found.hits;
  if (!hits.length) return [el("p", { class: "hint", text: gettext("The text was not found; nothing would change.") })];
  const list = el("ul", { class: "hits" });
  for (const hit of hits.slice(0, MOST)) {
    const [start, end] = cuts(hit.before, texts);
    const before = hit.before ? `${start}${hit.before}${end}` : message ? textOf(message) : "";
    const after = hit.after ? `${start}${hit.after}${end}` : gettext("redacted");
    list.append(el("li", {}, el("span", { class: "place", text: placeOf(hit) }), before ? el("del", { text: before }) : null, el("ins", { text: after })));
  }
  const all = hits.length + (found.more_hits ?? 0);
  const places = ngettext("This would be redacted, in %s place:", "This would be redacted, in %s places:", all);
  const made = [el("p", {}, el("strong", { text: interpolate(places, [all]) })), list];
  if (all > MOST) made.push(el("p", { class: "hint", text: interpolate(gettext("… and %s more."), [all - Math.min(hits.length, MOST)]) }));
  if (found.kept?.length) made.push(el("p", { class: "hint", text: gettext("An id also contains it and is kept.") }));
  return made;
}

/** What stands for the words before and after a passage, if there are any. */
function cuts(passage, texts) {
  const whole = passage && texts.find((text) => text.includes(passage));
  if (!whole) return ["", ""];
  return [whole.startsWith(passage) ? "" : "…", whole.endsWith(passage) ? "" : "…"];
}

/** Where it is; messages are counted from 1 by people. */
function placeOf({ place }) {
  if (place.kind === "message") return interpolate(gettext("Message %s"), [Number(place.name) + 1]);
  if (place.kind === "feedback") return gettext("Comment on an answer");
  if (place.kind === "session") return gettext("Title and metadata of the chat");
  if (place.kind === "agent") return interpolate(gettext("State of the agent “%s”"), [place.name]);
  return interpolate(gettext("State of “%s”"), [place.name]);
}
