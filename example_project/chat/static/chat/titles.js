// What a chat is called. Its first words are not stored as its title: a redaction reaches them.

/** The title, else the first words, which the server reads from the messages. */
export function titleOf({ title, display_title: shown, session_id: id }) {
  return title || (shown === id ? "" : shown) || gettext("Untitled");
}
