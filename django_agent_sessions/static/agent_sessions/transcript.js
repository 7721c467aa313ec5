/* Spares reloading: messages load in place, and the keyboard moves. Everything works without it. */
"use strict";
(() => {
  const root = document.querySelector("[data-as-transcript]");
  if (!root) return;

  const entries = () => [...root.querySelectorAll("[data-as-entry]")];

  // What the site's own server answered; under trusted types that has to be said.
  const policy = window.trustedTypes?.createPolicy("agent-sessions", { createHTML: (html) => html });

  function parse(html) {
    return new DOMParser().parseFromString(policy ? policy.createHTML(html) : html, "text/html");
  }

  async function fetched(url) {
    const answer = await fetch(url, { credentials: "same-origin" });
    if (!answer.ok || answer.redirected) throw new Error(String(answer.status));
    return parse(await answer.text());
  }

  /* A result that came in with another part goes to its call. */
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
    // At their real heights, not at those that are guessed of what is out of sight.
    turns?.classList.add("as-measured");
    if (turns) place[earlier ? "after" : "before"](document.adoptNode(turns));
    if (next) place.replaceChildren(document.adoptNode(next));
    else place.remove();
    pair();
    // What is being read stays where it is.
    if (anchor) window.scrollBy(0, anchor.getBoundingClientRect().top - top);
    // Once drawn, their heights are remembered.
    const drawn = () => turns?.classList.remove("as-measured");
    requestAnimationFrame(() => requestAnimationFrame(drawn));
  }

  root.addEventListener("click", (event) => {
    const link = event.target.closest("[data-as-earlier], [data-as-later]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    if (link.getAttribute("aria-busy") !== "true") more(link, "asEarlier" in link.dataset);
  });

  /* Large states come when somebody opens them. */
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

  /* An image that cannot be loaded says why; else its alternative text would stand there. */
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
      // The whole link, so that the address opens there also when it is far from the end.
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

  /* What the URL names may be in something that is folded. */
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
