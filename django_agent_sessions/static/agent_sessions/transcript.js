/* Loads further messages in place, and shows what is folded. The page works without it. */
"use strict";
(() => {
  const root = document.querySelector("[data-as-transcript]");
  if (!root) return;

  // Messages beyond this number are loaded by the buttons only, not by scrolling.
  const MOST = 2000;
  const NEAR = 600;

  const entries = () => [...root.querySelectorAll("[data-as-entry]")];

  // Trusted Types require a policy, also for responses of the site's own server.
  const policy = window.trustedTypes?.createPolicy("agent-sessions", { createHTML: (html) => html });

  function parse(html) {
    return new DOMParser().parseFromString(policy ? policy.createHTML(html) : html, "text/html");
  }

  async function fetched(url) {
    const answer = await fetch(url, { credentials: "same-origin" });
    if (!answer.ok || answer.redirected) {
      // A redirect leads to the login.
      throw Object.assign(new Error("not loaded"), { status: answer.redirected ? 403 : answer.status });
    }
    return parse(await answer.text());
  }

  const note = root.querySelector("[data-as-told]");
  let clearing = 0;
  /* Shows a short text for some seconds; screen readers read it out. */
  function say(name, more = "") {
    note.textContent = `${note.dataset[name]} ${more}`.trim();
    clearTimeout(clearing);
    clearing = setTimeout(() => note.replaceChildren(), 5000);
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

  /* Tells the other scripts of messages that were added. */
  function added() {
    pair();
    root.dispatchEvent(new CustomEvent("as-added"));
  }

  async function more(link, earlier, scrolled = false) {
    if (link.getAttribute("aria-busy") === "true") return;
    link.setAttribute("aria-busy", "true");
    let page;
    try {
      page = await fetched(link.dataset.asFragment);
    } catch {
      if (!scrolled) return location.assign(link.href);
      link.dataset.asFailed = "";
      link.removeAttribute("aria-busy");
      return say("unloaded");
    }
    const place = link.closest(".as-more");
    const turns = page.querySelector("[data-as-turns]");
    const next = page.querySelector(earlier ? "[data-as-earlier]" : "[data-as-later]");
    const anchor = earlier ? entries()[0] : null;
    const top = anchor ? anchor.getBoundingClientRect().top : 0;
    // Disables content-visibility, whose estimated heights would break the scroll position.
    turns?.classList.add("as-measured");
    if (turns?.querySelector("[data-as-entry]")) place[earlier ? "after" : "before"](document.adoptNode(turns));
    if (next) place.replaceChildren(document.adoptNode(next));
    else place.remove();
    added();
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
    more(link, "asEarlier" in link.dataset);
  });

  /* Loads further messages when the reader, not a script or a link, scrolls close to them. */
  let before = 0;
  let touched = false;
  for (const kind of ["wheel", "touchmove", "keydown", "pointerdown"]) {
    window.addEventListener(kind, () => (touched = true), { once: true, passive: true });
  }
  window.addEventListener(
    "scroll",
    () => {
      const [up, moved] = [window.scrollY < before, window.scrollY !== before];
      before = window.scrollY;
      if (!touched || !moved) return;
      const link = root.querySelector(up ? "[data-as-earlier]" : "[data-as-later]");
      if (!link || "asFailed" in link.dataset || link.getAttribute("aria-busy") === "true") return;
      const box = link.getBoundingClientRect();
      const near = up ? box.bottom > -NEAR : box.top < window.innerHeight + NEAR;
      if (near && entries().length < MOST) more(link, up, true);
    },
    { passive: true },
  );

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

  for (const each of root.querySelectorAll("[data-as-scripted]")) each.hidden = false;

  /* A menu closes when the reader leaves it. */
  const menu = root.querySelector("[data-as-menu]");
  document.addEventListener("click", (event) => {
    if (!menu?.contains(event.target)) menu?.removeAttribute("open");
  });
  menu?.addEventListener("focusout", (event) => {
    if (event.relatedTarget && !menu.contains(event.relatedTarget)) menu.open = false;
  });
  menu?.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });

  pair();

  function unfold(entry) {
    for (let box = entry.closest("details"); box; box = box.parentElement.closest("details")) {
      box.open = true;
    }
  }

  /* Opens the folded elements around the message that the URL names. */
  function reveal() {
    const entry = location.hash.startsWith("#m-") && document.getElementById(location.hash.slice(1));
    if (!entry) return;
    unfold(entry);
    entry.scrollIntoView({ block: "center" });
    entry.focus({ preventScroll: true });
  }
  window.addEventListener("hashchange", reveal);
  reveal();

  window.agentSessions = { root, entries, fetched, say, added, unfold };
})();
