// Questions before something is done. The browser's own dialogs keep the focus, and Esc closes them.

import { el, icon } from "./dom.js";

/**
 * Asks in a dialog whose form is sent, and closed by whoever asked.
 *
 * @param {{title: string, confirm: string, danger?: boolean, body: (Node|null)[],
 *   act: (form: FormData, dialog: HTMLDialogElement) => Promise<boolean|void>}} question
 *   `act` may throw a problem, which is said; it answers false to keep the dialog open.
 */
export function question({ title, confirm, danger = false, body, act }) {
  const back = document.activeElement;
  const alert = el("p", { class: "notice", role: "alert", hidden: true });
  const go = el("button", { class: danger ? "danger" : "primary", text: confirm });
  const form = el("form", { method: "dialog" }, el("header", {}, el("h2", { id: "question", text: title }), el("button", { type: "button", class: "icon", "aria-label": gettext("Close"), on: { click: () => dialog.close() } }, icon("close"))), ...body.filter(Boolean), alert, el("footer", {}, el("button", { type: "button", class: "quiet", text: gettext("Cancel"), on: { click: () => dialog.close() } }), go));
  const dialog = el("dialog", { "aria-labelledby": "question" }, form);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    alert.hidden = true;
    go.disabled = true;
    try {
      if ((await act(new FormData(form), dialog)) !== false) dialog.close();
    } catch (error) {
      alert.textContent = error.message;
      alert.hidden = false;
    } finally {
      go.disabled = false;
    }
  });
  dialog.addEventListener("close", () => {
    dialog.remove();
    if (back?.isConnected) back.focus();
  });
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  document.body.append(dialog);
  dialog.showModal();
  return { dialog, go, alert };
}

/** Asks for a new title. */
export function rename(title, act) {
  const field = el("input", { name: "title", id: "new-title", maxlength: "255", value: title, required: true });
  question({
    title: gettext("Rename this chat"),
    confirm: gettext("Rename"),
    body: [el("p", {}, el("label", { for: "new-title", text: gettext("Title") }), field)],
    act: (form) => act(String(form.get("title")).trim()),
  });
  field.select();
}

/** Asks before deleting permanently. */
export function remove(title, act) {
  question({
    title: gettext("Delete this chat?"),
    confirm: gettext("Delete"),
    danger: true,
    body: [el("p", { text: interpolate(gettext("“%s” and everything in it will be deleted permanently."), [title]) })],
    act,
  });
}
