/* Asks for new messages while an agent may be running. Each request asks for the permission anew. */
"use strict";
(() => {
  const shared = window.agentSessions;
  const line = shared?.root.querySelector("[data-as-live]");
  if (!line) return;
  const { root, entries, fetched, say, added } = shared;

  // Milliseconds between two requests, and until the page stops asking.
  const QUICK = 2000;
  const SLOW = 10000;
  const LONGEST = 10 * 60 * 1000;
  const MOST_FAILURES = 3;

  const text = line.querySelector("[data-as-live-text]");
  const again = line.querySelector("[data-as-again]");
  const turns = () => [...root.querySelectorAll("[data-as-turns]")].at(-1);
  const epoch = turns().dataset.asEpoch;
  let running = "asRunning" in turns().dataset;
  let timer = 0;
  let failures = 0;
  let busy = false;
  let unsettled = false;
  let news = 0;

  function start() {
    news = Date.now();
    failures = 0;
    text.textContent = line.dataset.watching;
    again.hidden = true;
    line.hidden = false;
    wait(QUICK);
  }

  function wait(milliseconds) {
    clearTimeout(timer);
    timer = document.hidden ? 0 : setTimeout(poll, milliseconds);
  }

  function stop(why) {
    clearTimeout(timer);
    timer = -1;
    text.textContent = line.dataset[why];
    line.setAttribute("role", "status");
    again.hidden = !["failed", "idle"].includes(why);
  }

  /* Replaces what the page says of the session, unless the reader is using it. */
  async function refresh() {
    unsettled = false;
    let page;
    try {
      page = await fetched(line.dataset.page);
    } catch {
      return;
    }
    for (const old of root.querySelectorAll("[data-as-fresh]")) {
      const fresh = page.querySelector(`[data-as-fresh="${old.dataset.asFresh}"]`);
      if (!fresh || old.contains(document.activeElement) || old.querySelector("details[open]")) continue;
      old.replaceChildren(...document.adoptNode(fresh).childNodes);
      for (const each of old.querySelectorAll("[data-as-scripted]")) each.hidden = false;
    }
  }

  function append(page) {
    const articles = [...page.querySelectorAll("[data-as-turns] > .as-turn")];
    const count = page.querySelectorAll("[data-as-entry]").length;
    if (!count) return 0;
    const bottom = document.documentElement.scrollHeight - window.innerHeight - window.scrollY;
    turns().querySelector("[data-as-none]")?.remove();
    turns().append(...articles.map((each) => document.adoptNode(each)));
    added();
    say("new", String(count));
    // Follows the conversation only for readers who are at its end.
    if (bottom < 120) window.scrollTo(0, document.documentElement.scrollHeight);
    return count;
  }

  async function poll() {
    timer = 0;
    if (busy || document.hidden) return;
    busy = true;
    await ask();
    busy = false;
  }

  async function ask() {
    // The end of the conversation is not on the page.
    if (root.querySelector("[data-as-later]")) return wait(SLOW);
    const url = new URL(line.dataset.asLive, location.href);
    const newest = entries().at(-1);
    if (newest) url.searchParams.set("after", newest.dataset.message);
    let page;
    try {
      page = await fetched(url);
    } catch (error) {
      if ([401, 403, 404].includes(error.status)) return stop("gone");
      failures += 1;
      return failures < MOST_FAILURES ? wait(SLOW * failures) : stop("failed");
    }
    failures = 0;
    const state = page.querySelector("[data-as-turns]");
    if (state.dataset.asEpoch !== epoch) return stop("changed");
    const ended = running && !("asRunning" in state.dataset);
    running = "asRunning" in state.dataset;
    if (append(page)) {
      news = Date.now();
      unsettled = true;
    } else if (unsettled && !running) await refresh();
    if (ended) await refresh();
    if (Date.now() - news > LONGEST) return stop("idle");
    wait(page.querySelector("[data-as-later]") ? 0 : running || Date.now() - news < 30000 ? QUICK : SLOW);
  }

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      if (timer > 0) clearTimeout(timer);
    } else if (timer >= 0) wait(0);
  });
  again.addEventListener("click", start);
  start();
})();
