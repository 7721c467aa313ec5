/* Copying, and keyboard shortcuts, which can be switched off. */
"use strict";
(() => {
  const shared = window.agentSessions;
  if (!shared) return;
  const { root, entries, say, unfold } = shared;

  // --- copying -------------------------------------------------------------------------------

  function copyByHand(text) {
    const field = document.createElement("textarea");
    field.value = text;
    field.className = "as-visually-hidden";
    const focused = document.activeElement;
    root.append(field);
    field.select();
    // Pages without https have no navigator.clipboard.
    const copied = document.execCommand("copy");
    field.remove();
    focused?.focus({ preventScroll: true });
    return copied;
  }

  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      return copyByHand(text);
    }
  }

  /* The texts of a message without its tool calls, or all of it if it has none. */
  function textOf(entry) {
    entry.classList.add("as-copying");
    const texts = [...entry.querySelectorAll(":scope > .as-pieces > .as-piece-text")];
    const from = texts.length ? texts : [entry.querySelector(".as-pieces")];
    const text = from.map((each) => each.innerText.trim()).join("\n\n");
    entry.classList.remove("as-copying");
    return text;
  }

  const sources = {
    id: (button) => button.dataset.asText,
    code: (button) => button.closest("pre").querySelector("code").innerText.replace(/\n$/, ""),
    text: (button) => textOf(button.closest("[data-as-entry]")),
    link: (button) => button.closest("[data-as-entry]").querySelector(".as-permalink").href,
  };

  root.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-as-copy]");
    if (!button) return;
    const text = sources[button.dataset.asCopy](button);
    say((await copy(text)) ? "copied" : "uncopied");
  });

  /* Adds the buttons to messages that have none yet. */
  function addButtons() {
    const [buttons, code] = ["[data-as-copies]", "[data-as-copy-code]"].map((each) => root.querySelector(each));
    for (const entry of root.querySelectorAll("[data-as-entry]:not([data-as-copied])")) {
      entry.dataset.asCopied = "";
      entry.querySelector(".as-extra")?.prepend(buttons.content.cloneNode(true));
      for (const pre of entry.querySelectorAll(".as-markdown pre:has(> code)")) pre.append(code.content.cloneNode(true));
    }
  }
  root.addEventListener("as-added", addButtons);
  addButtons();

  // --- shortcuts -----------------------------------------------------------------------------

  function toggleAll() {
    const all = [...root.querySelectorAll(".as-main details:not(.as-others)")];
    const open = !all.some((each) => each.open);
    for (const each of all) each.open = open;
  }
  root.querySelector("[data-as-toggle]")?.addEventListener("click", toggleAll);

  function focusEntry(entry) {
    unfold(entry);
    entry.focus({ preventScroll: true });
    entry.scrollIntoView({ block: "nearest" });
    // The full link, so that a reload opens the window around this message.
    const link = entry.querySelector(".as-permalink");
    if (link) history.replaceState(null, "", link.href);
  }

  const focused = () => document.activeElement?.closest("[data-as-entry]");

  function step(by) {
    const all = entries();
    const here = all.indexOf(focused());
    let next = here + by;
    if (here < 0) {
      const first = all.findIndex((each) => each.getBoundingClientRect().bottom > 80);
      next = first < 0 ? all.length - 1 : first;
    }
    if (all[next]) focusEntry(all[next]);
    else click(by < 0 ? "[data-as-earlier]" : "[data-as-later]");
  }

  const click = (selector) => root.querySelector(selector)?.click();

  /* Goes to an end of the conversation, which may be on another page. */
  function goTo(more, link, index) {
    if (root.querySelector(more)) click(link);
    else if (entries().length) focusEntry(entries().at(index));
  }

  function redact() {
    // redact.js takes the selected text.
    if (!document.getSelection().isCollapsed) return false;
    const link = focused()?.querySelector(".as-extra .as-redact") ?? root.querySelector("[data-as-redact]");
    link?.click();
    return true;
  }

  const dialog = root.querySelector("[data-as-keys]");
  const keys = {
    j: () => step(1),
    k: () => step(-1),
    g: () => goTo("[data-as-earlier]", "[data-as-start]", 0),
    G: () => goTo("[data-as-later]", "[data-as-end]", -1),
    e: toggleAll,
    r: redact,
    "/": () => root.querySelector("[data-as-find]")?.focus(),
    "[": () => click("[data-as-previous]"),
    "]": () => click("[data-as-next]"),
    "?": () => dialog.showModal(),
  };

  const SETTING = "agent-sessions-keys";
  const setting = root.querySelector("[data-as-keys-on]");
  function stored() {
    try {
      return localStorage.getItem(SETTING);
    } catch {
      return null;
    }
  }
  function apply(on) {
    setting.checked = on;
    // redact.js reads it.
    if (on) delete root.dataset.asKeysOff;
    else root.dataset.asKeysOff = "";
  }
  apply(stored() !== "off");
  setting.addEventListener("change", () => {
    apply(setting.checked);
    try {
      localStorage.setItem(SETTING, setting.checked ? "on" : "off");
    } catch {
      // Storage is blocked: the choice holds for this page.
    }
  });
  root.querySelector("[data-as-show-keys]")?.addEventListener("click", () => dialog.showModal());

  document.addEventListener("keydown", (event) => {
    if ("asKeysOff" in root.dataset || dialog.open) return;
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.defaultPrevented) return;
    if (event.target.closest("input, textarea, select, [contenteditable]")) return;
    const action = Object.hasOwn(keys, event.key) ? keys[event.key] : null;
    if (action && action() !== false) event.preventDefault();
  });
})();
