// Saying something, and the answer: on its way, stopped, lost and joined again.

import { Problem, chat, pages, sessions } from "./api.js";
import { StreamingAnswer } from "./answer.js";
import { partsOf, preview } from "./composer.js";
import { announce, byId } from "./dom.js";
import { chosenAgent, connection, header, hint } from "./heading.js";

const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 8000;

export class Saying {
  #page;
  #reading;
  #answering = null;

  /**
   * @param {object} page The open chat, and the parts of the page.
   * @param {import("./reading.js").Reading} reading
   */
  constructor(page, reading) {
    this.#page = page;
    this.#reading = reading;
  }

  /** Whether an answer is on its way. */
  get isAnswering() {
    return Boolean(this.#answering);
  }

  /** Turns away from an answer; it goes on at the server. */
  leave() {
    this.#answering?.control.abort();
    this.#answering = null;
    this.#page.composer.busy = false;
  }

  async send(draft) {
    const { composer, transcript, scroll } = this.#page;
    let opened = this.#page.open;
    composer.busy = true;
    hint("");
    byId("welcome").hidden = true;
    transcript.pend(preview(draft));
    scroll.toEnd();
    try {
      const parts = await partsOf(draft);
      if (!opened.id) opened = await this.#begin();
      if (this.#page.open !== opened) return;
      const sent = { id: crypto.randomUUID?.() ?? String(Math.random()).slice(2), role: "user", parts };
      await this.#answer(opened, (signal) => chat.send(opened.id, sent, signal));
    } catch (error) {
      if (this.#page.open === opened) this.#refused(draft, error);
    }
  }

  /** What was not taken goes back to where it was written. */
  #refused(draft, error) {
    const { composer, open, transcript } = this.#page;
    this.leave();
    transcript.release();
    transcript.unpend();
    composer.restore(draft);
    composer.notice(error.message);
    composer.focus();
    byId("welcome").hidden = Boolean(open.id);
    if (open.id) this.#reading.catchUp();
  }

  /** Makes the session of a new chat. */
  async #begin() {
    const { live, sidebar, transcript } = this.#page;
    const made = { metadata: { agent: chosenAgent() } };
    const session = await sessions.create(made);
    const opened = (this.#page.open = { id: session.id, session: { ...made, ...session } });
    transcript.readOnly = false;
    history.pushState(null, "", pages.chat(session.id));
    byId("actions").hidden = false;
    header(opened.session);
    live.follow(sessions.events(session.id));
    await sidebar.refresh();
    sidebar.mark(session.id);
    return opened;
  }

  /** Joins the answer that is on its way, begun here before a reload, or in another browser. */
  async join() {
    const opened = this.#page.open;
    if (this.#answering || !opened.id) return;
    const control = new AbortController();
    this.#answering = { opened, control };
    try {
      const response = await chat.join(opened.id, control.signal);
      if (this.#answering?.control !== control) return;
      this.#answering = null;
      if (!response || this.#page.open !== opened) return;
      await this.#answer(opened, async (signal) => {
        signal.addEventListener("abort", () => control.abort());
        return response;
      });
    } catch {
      // It comes as messages, when it is there.
      if (this.#answering?.control === control) this.#answering = null;
    }
  }

  async #answer(opened, begun) {
    const { composer, scroll, transcript } = this.#page;
    this.leave();
    const view = new StreamingAnswer({ onDraw: () => scroll.follow() });
    const mine = (this.#answering = { opened, control: new AbortController() });
    composer.busy = true;
    transcript.hold();
    transcript.showAnswer(view.row);
    scroll.follow();
    const listening = new AbortController();
    const response = await begun(listening.signal);
    // Not before: a message that is on its way is to arrive.
    mine.control.signal.addEventListener("abort", () => listening.abort());
    if (this.#answering !== mine) return listening.abort();
    let lost = null;
    try {
      await view.read(response);
    } catch (error) {
      lost = error;
    }
    if (this.#answering !== mine) return;
    if (lost || !view.answer.ended) await this.#rejoin(mine, view);
    if (this.#answering === mine) await this.#settle(opened, view);
  }

  /** A lost connection is not the end of an answer: it is read again from its beginning. */
  async #rejoin(mine, view) {
    const { scroll, transcript } = this.#page;
    connection("reconnecting");
    for (let pause = FIRST_PAUSE; this.#answering === mine; pause = Math.min(pause * 2, LONGEST_PAUSE)) {
      try {
        const response = await chat.join(mine.opened.id, mine.control.signal);
        connection("");
        if (!response || this.#answering !== mine) return;
        const again = new StreamingAnswer({ onDraw: () => scroll.follow() });
        view.row.replaceWith(again.row);
        transcript.showAnswer(again.row);
        await again.read(response);
        Object.assign(view, { answer: again.answer, row: again.row });
        if (again.answer.ended) return;
      } catch (error) {
        if (error instanceof Problem && !error.isOffline) return;
      }
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }

  /** Puts the stored messages in place of what streamed. */
  async #settle(opened, view) {
    const { composer, scroll, sidebar, transcript } = this.#page;
    this.#answering = null;
    composer.busy = false;
    await this.#reading.catchUp();
    if (this.#page.open !== opened) return;
    transcript.release();
    transcript.unpend();
    const { answer: said } = view;
    if (said.error) composer.notice(said.error);
    announce(said.stopped ? gettext("Stopped.") : said.error || interpolate(gettext("Agent: %s"), [said.text]));
    scroll.follow();
    composer.focus();
    sidebar.refresh();
  }

  async stop() {
    if (!this.#answering) return;
    try {
      await chat.stop(this.#answering.opened.id);
    } catch (error) {
      this.#page.composer.notice(error.message);
    }
  }
}
