// What stands above and around a conversation: its title, hints, and the state of the connection.

import { byId, el } from "./dom.js";
import { titleOf } from "./titles.js";

const STATES = {
  offline: gettext("You are offline. New messages are shown when you are online again."),
  reconnecting: gettext("The connection was lost. Reconnecting …"),
};

/** Whom one can talk to, by what the metadata of a session say. */
export const agents = new Map(
  [...document.querySelectorAll("#agents label")].map((label) => [label.querySelector("input").value, label.textContent.trim()]),
);

/** Whom a new chat shall be with. */
export const chosenAgent = () => document.querySelector("#agents input:checked").value;

export function title(words, facts) {
  byId("title").textContent = words;
  byId("facts").replaceChildren(...(facts || []).filter(Boolean));
  document.title = [words, gettext("Agent sessions")].join(" – ");
}

export function header(session) {
  const kind = session.metadata?.agent;
  title(titleOf(session), [
    kind ? el("span", { class: "chip", text: agents.get(kind) ?? String(kind) }) : null,
    session.archived_at ? el("span", { class: "chip", text: gettext("archived") }) : null,
    session.legal_hold ? el("span", { class: "chip warn", text: gettext("held") }) : null,
  ]);
  const archive = byId("archive");
  archive.setAttribute("aria-label", session.archived_at ? gettext("Restore this chat from the archive") : gettext("Archive this chat"));
  archive.title = session.archived_at ? gettext("Restore from the archive") : gettext("Archive");
  archive.querySelector("span").textContent = session.archived_at ? gettext("Restore") : gettext("Archive");
  archive.setAttribute("aria-pressed", String(Boolean(session.archived_at)));
}

export function hint(words) {
  byId("chat-hint").textContent = words;
  byId("chat-hint").hidden = !words;
}

export function connection(state) {
  byId("connection").textContent = STATES[state] ?? "";
  byId("connection").hidden = !state;
}
