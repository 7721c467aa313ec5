/* Loads further messages in place and adds keyboard shortcuts. The page works without it. */
"use strict";
(() => {
  const root = document.querySelector("[data-as-transcript]");
  if (!root) return;

  const entries = () => [...root.querySelectorAll("[data-as-entry]")];

  // Trusted Types require a policy, also for responses of the site's own server.
  const policy = window.trustedTypes?.createPolicy("agent-sessions", { createHTML: (html) => html });

  function parse(html) {
    return new DOMParser().parseFromString(policy ? policy.createHTML(html) : html, "text/html");
  }

  async function fetched(url) {
    const answer = await fetch(url, { credentials: "same-origin" });
    if (!answer.ok || answer.redirected) throw new Error(String(answer.status));
    return parse(await answer.text());
  }

  /* Moves results that were loaded later to their calls. */
  function pair() {
    const calls = new Map();
    for (const call of root.querySelectorAll("[data-as-call]")) {
      const key = call.dataset.asCall;
      if (key && !call.querySelector(".as-half-result")) calls.set(key, call);
    }
    for (const result of root.querySelectorAll("[data-as-result]")) {
      const call = calls.get(result.dataset.asResult);
      const half = result.querySelector(".as-half-result");
      if (!call || !half) continue;
      call.append(half);
      const mark = result.querySelector("summary .as-status");
      call.querySelector("summary .as-status")?.remove();
      if (mark) call.querySelector("summary").append(mark);
      if (result.classList.contains("as-call-error")) {
        call.classList.add("as-call-error");
        call.open = true;
      }
      calls.delete(result.dataset.asResult);
      result.remove();
    }
  }

  async function more(link, earlier) {
    link.setAttribute("aria-busy", "true");
    let page;
    try {
      page = await fetched(link.dataset.asFragment);
    } catch {
      location.assign(link.href);
      return;
    }
    const place = link.closest(".as-more");
    const turns = page.querySelector("[data-as-turns]");
    const next = page.querySelector(earlier ? "[data-as-earlier]" : "[data-as-later]");
    const anchor = earlier ? entries()[0] : null;
    const top = anchor ? anchor.getBoundingClientRect().top : 0;
    // Disables content-visibility, whose estimated heights would break the scroll position.
    turns?.classList.add("as-measured");
    if (turns) place[earlier ? "after" : "before"](document.adoptNode(turns));
    if (next) place.replaceChildren(document.adoptNode(next));
    else place.remove();
    pair();
    // Keeps the scroll position.
    if (anchor) window.scrollBy(0, anchor.getBoundingClientRect().top - top);
    // After rendering, the browser remembers the real heights.
    const drawn = () => turns?.classList.remove("as-measured");
    requestAnimationFrame(() => requestAnimationFrame(drawn));
  }

  root.addEventListener("click", (event) => {
    const link = event.target.closest("[data-as-earlier], [data-as-later]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    if (link.getAttribute("aria-busy") !== "true") more(link, "asEarlier" in link.dataset);
  });

  /* Loads large states when they are opened. */
  root.addEventListener(
    "toggle",
    async (event) => {
      const box = event.target;
      const url = box.dataset?.asLoad;
      if (!url || !box.open) return;
      delete box.dataset.asLoad;
      try {
        box.append(...(await fetched(url)).body.childNodes);
      } catch {
        box.dataset.asLoad = url;
      }
    },
    true,
  );

  /* Shows the reason for a missing image instead of its alternative text. */
  function lost(image) {
    const link = image.closest("[data-as-lost]");
    if (!link) return;
    link.classList.replace("as-image", "as-lost");
    link.textContent = link.dataset.asLost;
  }
  root.addEventListener("error", (event) => event.target.matches("img") && lost(event.target), true);
  for (const image of root.querySelectorAll(".as-image img")) {
    if (image.complete && image.currentSrc && !image.naturalWidth) lost(image);
  }

  function toggleAll() {
    const all = [...root.querySelectorAll(".as-main details")];
    const open = !all.some((each) => each.open);
    for (const each of all) each.open = open;
  }

  const toggle = root.querySelector("[data-as-toggle]");
  if (toggle) {
    toggle.hidden = false;
    toggle.addEventListener("click", toggleAll);
  }

  function step(by) {
    const all = entries();
    const here = all.indexOf(document.activeElement?.closest("[data-as-entry]"));
    let next = here + by;
    if (here < 0) {
      const first = all.findIndex((each) => each.getBoundingClientRect().bottom > 80);
      next = first < 0 ? all.length - 1 : first;
    }
    const entry = all[next];
    if (entry) {
      for (let box = entry.closest("details"); box; box = box.parentElement.closest("details")) {
        box.open = true;
      }
      entry.focus({ preventScroll: true });
      entry.scrollIntoView({ block: "nearest" });
      // The full link, so that a reload opens the window around this message.
      const link = entry.querySelector(".as-permalink");
      if (link) history.replaceState(null, "", link.href);
    } else {
      root.querySelector(by < 0 ? "[data-as-earlier]" : "[data-as-later]")?.click();
    }
  }

  const keys = {
    j: () => step(1),
    k: () => step(-1),
    e: toggleAll,
    "/": () => root.querySelector("[data-as-find]")?.focus(),
    "[": () => root.querySelector("[data-as-previous]")?.click(),
    "]": () => root.querySelector("[data-as-next]")?.click(),
  };

  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, textarea, select, [contenteditable]");
    if (typing || event.ctrlKey || event.metaKey || event.defaultPrevented) return;
    const action = keys[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });

  pair();

  /* Opens the folded elements around the message that the URL names. */
  function reveal() {
    const entry = location.hash.startsWith("#m-") && document.getElementById(location.hash.slice(1));
    if (!entry) return;
    for (let box = entry.closest("details"); box; box = box.parentElement.closest("details")) {
      box.open = true;
    }
    entry.scrollIntoView({ block: "center" });
    entry.focus({ preventScroll: true });
  }
  window.addEventListener("hashchange", reveal);
  reveal();
})();
