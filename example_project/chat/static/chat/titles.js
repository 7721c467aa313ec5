// Titles. A new chat is called by its first words, until somebody gives it a name. Words that may
// have to be redacted stand in such a title once more, so that it goes when a message is redacted.

import { sessions } from "./api.js";
import { agents } from "./heading.js";

const LONGEST = 60;
const MARK = "automatic";

/** What a new chat is called, and how that is remembered. */
export function beginning(kind, text) {
  const words = firstWords(text);
  if (!words) return { title: agents.get(kind), metadata: { agent: kind } };
  return { title: words, metadata: { agent: kind, title: MARK } };
}

function firstWords(text) {
  // By characters as people count them, so that none is cut in two.
  const all = [...text.trim().replace(/\s+/g, " ")];
  if (all.length <= LONGEST) return all.join("");
  const begun = all.slice(0, LONGEST - 1).join("");
  const end = begun.lastIndexOf(" ");
  return `${end > LONGEST / 3 ? begun.slice(0, end) : begun}…`;
}

/** Whether a title is of the chat's first words. */
export const isAutomatic = (session) => session.metadata?.title === MARK;

/** The change that makes a title the user's own. It is kept when a message is redacted. */
export async function named(id, words) {
  return { title: words, metadata: withoutMark((await sessions.get(id)).metadata) };
}

/**
 * Takes the first words out of a title, before a message is redacted.
 *
 * @returns {Promise<object|null>} The session, if it has changed.
 */
export async function forget(id) {
  // What is true now: it may have been named in another browser.
  const session = await sessions.get(id);
  if (!isAutomatic(session)) return null;
  const { metadata } = session;
  return sessions.change(id, { title: agents.get(metadata.agent) ?? "", metadata: withoutMark(metadata) });
}

function withoutMark({ title, ...others } = {}) {
  return title === MARK || title === undefined ? others : { title, ...others };
}
