// What is done with a chat as a whole, and with one's own messages in it.

import { messages, sessions } from "./api.js";
import * as dialogs from "./dialogs.js";
import { announce, byId, icon } from "./dom.js";
import { header } from "./heading.js";
import { redact } from "./redact.js";
import { titleOf } from "./titles.js";

export class Actions {
  #page;
  #reading;
  #onDeleted;

  /**
   * @param {object} page The open chat, and the parts of the page.
   * @param {import("./reading.js").Reading} reading
   * @param {(id: string) => Promise<void>} onDeleted
   */
  constructor(page, reading, onDeleted) {
    this.#page = page;
    this.#reading = reading;
    this.#onDeleted = onDeleted;
    for (const [id, shape] of [["rename", "pencil"], ["archive", "archive"], ["delete", "trash"]]) byId(id).prepend(icon(shape));
    byId("rename").addEventListener("click", () => this.#rename());
    byId("archive").addEventListener("click", () => this.#archive());
    byId("delete").addEventListener("click", () => this.#delete());
  }

  /** Asks what of a message to redact, and does it. */
  redact(id) {
    const { open: opened, transcript, sidebar } = this.#page;
    redact(transcript.get(id), {
      texts: transcript.texts,
      done: async () => {
        await this.#reading.catchUp();
        const message = await messages.get(id);
        this.#changed(opened, await sessions.get(opened.id));
        if (this.#page.open === opened) transcript.apply([message]);
        document.querySelector(`#m-${CSS.escape(id)} .redact`)?.focus();
        announce(gettext("Redacted."));
        sidebar.refresh();
      },
    });
  }

  #rename() {
    const { open: opened } = this.#page;
    dialogs.rename(opened.session.title, async (words) => {
      this.#changed(opened, await sessions.change(opened.id, { title: words }));
    });
  }

  async #archive() {
    const { open: opened, composer, sidebar } = this.#page;
    const archived = !opened.session.archived_at;
    try {
      this.#changed(opened, await sessions.change(opened.id, { archived }));
      announce(archived ? gettext("Archived.") : gettext("Restored from the archive."));
      sidebar.refresh();
    } catch (error) {
      composer.notice(error.message);
    }
  }

  #delete() {
    const { id, session } = this.#page.open;
    dialogs.remove(titleOf(session), async () => {
      await sessions.remove(id);
      announce(gettext("Deleted."));
      await this.#onDeleted(id);
    });
  }

  #changed(opened, session) {
    Object.assign(opened.session, session);
    if (this.#page.open === opened) header(opened.session);
    this.#page.sidebar.update(opened.session);
  }
}
