/* Opens the preview of a redaction for text that is selected within one message. Without this
   script, the links "Redact message…" and "Redact part…" do the same. */
"use strict";
(() => {
  const bar = document.querySelector("[data-as-redact-selection]");
  if (!bar) return;

  // The maximum length that the form on the next page accepts.
  const LONGEST = 2000;
  const button = bar.querySelector("button");
  const field = (name) => bar.elements.namedItem(name);

  function messageOf(node) {
    const element = node.nodeType === Node.ELEMENT_NODE ? node : node.parentElement;
    return element?.closest("[data-message]")?.dataset.message ?? "";
  }

  function selected() {
    const selection = document.getSelection();
    if (!selection || selection.isCollapsed || !selection.rangeCount) return null;
    const text = selection.toString().trim();
    const range = selection.getRangeAt(0);
    const first = messageOf(range.startContainer);
    // A triple click ends at the start of the next element.
    const last = range.endOffset === 0 ? first : messageOf(range.endContainer);
    if (!text || (!first && !last)) return null;
    return { text, message: first === last ? first : "" };
  }

  function hide() {
    bar.hidden = true;
    field("text").value = "";
    field("message").value = "";
  }

  function update() {
    const found = selected();
    if (!found) {
      // Focusing the bar may end the selection; keep the selected text.
      if (!bar.contains(document.activeElement)) hide();
      return;
    }
    const note = !found.message ? "several" : found.text.length > LONGEST ? "long" : "one";
    for (const each of bar.querySelectorAll("[data-as-note]")) {
      each.hidden = each.dataset.asNote !== note;
    }
    field("text").value = note === "one" ? found.text : "";
    field("message").value = note === "one" ? found.message : "";
    button.disabled = note !== "one";
    bar.hidden = false;
  }

  let waiting = 0;
  document.addEventListener("selectionchange", () => {
    clearTimeout(waiting);
    waiting = setTimeout(update, 120);
  });

  // A mousedown on the bar would end the selection before the click.
  bar.addEventListener("mousedown", (event) => event.preventDefault());

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.target.closest("input, textarea, select, [contenteditable]")) return;
    if (document.querySelector("[data-as-keys-off], dialog[open]")) return;
    if (event.key === "Escape" && !bar.hidden) {
      hide();
    } else if (event.key === "r") {
      clearTimeout(waiting);
      update();
      if (bar.hidden || button.disabled) return;
      event.preventDefault();
      bar.requestSubmit(button);
    }
  });

  // The browser may restore the fields after a back navigation.
  window.addEventListener("pageshow", hide);
})();
