// The list of one's chats: searched, paged, and a drawer on a phone.

import { pages, sessions } from "./api.js";
import { byId, el, icon, when } from "./dom.js";
import { titleOf } from "./titles.js";

const PAUSE = 250;

export class Sidebar {
  #rows = new Map();
  #next = null;
  #archived = false;
  #q = "";
  #current = null;
  #asked = 0;
  #timer = 0;
  #onOpen;

  constructor({ onOpen }) {
    this.#onOpen = onOpen;
    byId("open-list").append(icon("menu"));
    byId("close-list").append(icon("close"));
    byId("new").prepend(icon("plus"));
    byId("find").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#search();
    });
    byId("find-text").addEventListener("input", () => {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.#search(), PAUSE);
    });
    byId("show-active").addEventListener("click", () => this.#switch(false));
    byId("show-archived").addEventListener("click", () => this.#switch(true));
    byId("list-more").addEventListener("click", () => this.#more());
    byId("list").addEventListener("click", (event) => {
      const found = event.target.closest("a[data-id]");
      if (!found || event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
      event.preventDefault();
      this.close();
      this.#onOpen(found.dataset.id);
    });
    byId("open-list").addEventListener("click", () => this.open());
    byId("close-list").addEventListener("click", () => this.close());
    byId("backdrop").addEventListener("click", () => this.close());
    byId("sidebar").addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.isDrawerOpen) {
        event.stopPropagation();
        this.close();
      }
    });
  }

  get isDrawerOpen() {
    return byId("sidebar").classList.contains("open");
  }

  open() {
    byId("sidebar").classList.add("open");
    byId("backdrop").hidden = false;
    byId("chat").inert = true;
    byId("open-list").setAttribute("aria-expanded", "true");
    byId("close-list").focus();
  }

  close() {
    if (!this.isDrawerOpen) return;
    byId("sidebar").classList.remove("open");
    byId("backdrop").hidden = true;
    byId("chat").inert = false;
    byId("open-list").setAttribute("aria-expanded", "false");
    byId("open-list").focus();
  }

  /** Marks the chat that is open. */
  mark(id) {
    this.#current = id;
    for (const [key, row] of this.#rows) row.current(key === id);
  }

  /** Takes over what became of a session, without asking for it. */
  update(session) {
    const row = this.#rows.get(session.id);
    if (row) row.fill(session);
    if (row && (session.archived_at != null) !== this.#archived) this.drop(session.id);
  }

  drop(id) {
    this.#rows.get(id)?.item.remove();
    this.#rows.delete(id);
    this.#hint();
  }

  /** Reads the beginning of the list anew; what was loaded further down stays. */
  async refresh() {
    const asked = ++this.#asked;
    let found;
    try {
      found = await sessions.list({ q: this.#q, archived: this.#archived });
    } catch (error) {
      if (asked === this.#asked) this.#hint(error.message);
      return;
    }
    if (asked !== this.#asked) return;
    const whole = this.#rows.size <= found.results.length || !found.next;
    if (whole) {
      const there = new Set(found.results.map((session) => session.id));
      for (const id of [...this.#rows.keys()]) if (!there.has(id)) this.drop(id);
      this.#next = found.next;
    }
    found.results.forEach((session, index) => this.#put(session, index));
    this.#hint(found.search?.truncated ? gettext("There may be more results: search for a rarer word.") : "");
  }

  async #more() {
    const asked = ++this.#asked;
    const button = byId("list-more");
    button.disabled = true;
    try {
      const found = await sessions.more(this.#next);
      if (asked !== this.#asked) return;
      this.#next = found.next;
      const first = this.#rows.size;
      for (const session of found.results) this.#put(session, this.#rows.size);
      [...this.#rows.values()][first]?.link.focus();
      this.#hint();
    } catch (error) {
      this.#hint(error.message);
    } finally {
      button.disabled = false;
    }
  }

  #search() {
    clearTimeout(this.#timer);
    const wanted = byId("find-text").value.trim();
    if (wanted === this.#q) return;
    this.#q = wanted;
    this.#again();
  }

  #switch(archived) {
    if (archived === this.#archived) return;
    this.#archived = archived;
    byId("show-active").setAttribute("aria-pressed", String(!archived));
    byId("show-archived").setAttribute("aria-pressed", String(archived));
    this.#again();
  }

  #again() {
    this.#rows.clear();
    this.#next = null;
    byId("list").replaceChildren();
    this.refresh();
  }

  #put(session, index) {
    const row = this.#rows.get(session.id) ?? makeRow(session.id);
    this.#rows.set(session.id, row);
    row.fill(session);
    row.current(session.id === this.#current);
    const list = byId("list");
    if (list.children[index] !== row.item) list.insertBefore(row.item, list.children[index] ?? null);
  }

  #hint(words = "") {
    byId("list-more").hidden = !this.#next;
    const nothing = this.#q ? gettext("No chat found.") : this.#archived ? gettext("No archived chats.") : gettext("No chats yet.");
    byId("list-hint").textContent = words || (this.#rows.size ? "" : nothing);
  }
}

function makeRow(id) {
  const name = el("span", { class: "name" });
  const facts = el("span", { class: "facts" });
  const link = el("a", { href: pages.chat(id), data: { id } }, name, facts);
  const item = el("li", {}, link);
  return {
    item,
    link,
    fill(session) {
      name.textContent = titleOf(session);
      facts.replaceChildren(when(session.last_activity_at));
      if (session.legal_hold) facts.append(el("span", { class: "chip", text: gettext("held") }));
    },
    current(is) {
      if (is) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    },
  };
}
