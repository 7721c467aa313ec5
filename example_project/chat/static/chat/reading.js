// Reading stored messages: what came before those that are shown, and what came meanwhile.

import { Problem, sessions } from "./api.js";
import { byId } from "./dom.js";

export const PAGE = 50;

const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 8000;

export class Reading {
  #page;
  #timer = 0;
  #pause = FIRST_PAUSE;

  /** @param {object} page The open chat, and the parts of the page. */
  constructor(page) {
    this.#page = page;
    byId("older").addEventListener("click", () => this.older());
    new IntersectionObserver((seen) => seen.some((each) => each.isIntersecting) && this.older(), {
      root: byId("scroll"),
      rootMargin: "200px 0px 0px",
    }).observe(byId("older"));
  }

  /** Forgets what was still to be read: another chat is opened. */
  leave() {
    clearTimeout(this.#timer);
    this.#pause = FIRST_PAUSE;
    byId("older").hidden = true;
  }

  /** Shows the messages before those that are there. */
  async older() {
    const { open: opened, transcript, scroll, composer } = this.#page;
    const before = transcript.oldest;
    const button = byId("older");
    if (!before || button.disabled || button.hidden) return;
    button.disabled = true;
    try {
      const page = await sessions.messages(opened.id, { limit: PAGE, before });
      if (this.#page.open !== opened) return;
      scroll.keep(() => {
        transcript.apply(page.results);
        button.hidden = !page.previous;
      });
    } catch (error) {
      if (this.#page.open === opened) composer.notice(error.message);
    } finally {
      button.disabled = false;
    }
  }

  /** Reads what is newer than what is here, and what is here again: it may have been redacted. */
  async catchUp() {
    const { open: opened, composer, scroll } = this.#page;
    if (!opened.id) return;
    clearTimeout(this.#timer);
    try {
      await this.#readNews(opened);
      this.#pause = FIRST_PAUSE;
      if (this.#page.open === opened) scroll.follow();
    } catch (error) {
      if (this.#page.open !== opened) return;
      if (!(error instanceof Problem) || !error.isOffline) {
        composer.notice(error.message);
        return;
      }
      // A network that was just lost or found refuses now and then.
      this.#timer = setTimeout(() => this.catchUp(), this.#pause);
      this.#pause = Math.min(this.#pause * 2, LONGEST_PAUSE);
    }
  }

  async #readNews(opened) {
    const { transcript } = this.#page;
    const last = await sessions.messages(opened.id, { order: "desc", limit: PAGE });
    if (this.#page.open !== opened) return;
    const gap = transcript.newest && last.next && !last.results.some((each) => transcript.has(each.id));
    if (gap) {
      let page = { next: null, results: [] };
      let after = transcript.newest;
      do {
        page = await sessions.messages(opened.id, { order: "asc", limit: PAGE, after });
        if (this.#page.open !== opened) return;
        transcript.apply(page.results);
        after = page.results.at(-1)?.id ?? after;
      } while (page.next);
    }
    transcript.apply(last.results);
  }
}
