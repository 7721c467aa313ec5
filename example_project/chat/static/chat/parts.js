// One part of a message: words, thoughts, a tool's work, a picture, or anything else.

import { el, harmless, icon, isOurs, link } from "./dom.js";
import { prose, typed } from "./prose.js";

const LONGEST = 20000;

/** Draws a part. `result` is what a tool returned to a call. */
export function drawPart(part, { role, result, running = false } = {}) {
  switch (part.kind) {
    case "text":
      return role === "assistant" ? prose(part.text) : typed(part.text);
    case "reasoning":
      return folded("reasoning", gettext("Thoughts"), [], [pre(part.text || gettext("No readable text."))]);
    case "tool_call":
      return tool(part, part.result ?? result, running);
    case "tool_result":
      return tool({ name: part.name, call_id: part.call_id, data: null, orphan: true }, part, false);
    case "image":
      return picture(part);
    case "document":
      return el("p", { class: "document" }, part.url ? link(part.url, named(part)) : named(part));
    default:
      return folded("other", gettext("Unknown content"), [], [pre(pretty(part.data))]);
  }
}

/** A call with what came of it, in one folded line. */
function tool(call, result, running) {
  const failed = result?.status === "error";
  const marks = [];
  if (failed) marks.push(el("span", { class: "chip warn", text: gettext("failed") }));
  else if (!result) marks.push(el("span", { class: "chip", text: running ? gettext("running") : gettext("no result") }));
  const inside = [];
  if (!call.orphan) inside.push(el("h3", { text: gettext("Input") }), pre(pretty(call.data ?? {})));
  if (result) inside.push(el("h3", { text: failed ? gettext("Error") : gettext("Output") }), ...outputs(result));
  const drawn = folded("tool", call.name || gettext("tool"), [...brief(call.data), ...marks], inside, "tool");
  const shown = (result?.parts ?? []).filter((part) => part.kind === "image").map(picture);
  return shown.length ? el("div", { class: "with-pictures" }, drawn, ...shown) : drawn;
}

function outputs(result) {
  const made = [];
  if (result.text) made.push(pre(result.text));
  if (result.data != null) made.push(pre(pretty(result.data)));
  for (const part of result.parts ?? []) {
    if (part.kind === "document") made.push(drawPart(part));
    if (part.kind === "unknown") made.push(pre(pretty(part.data)));
    if (part.kind === "image") made.push(el("p", { class: "hint", text: interpolate(gettext("A picture (%s)"), [named(part)]) }));
  }
  return made.length ? made : [el("p", { class: "hint", text: gettext("Nothing.") })];
}

/** The arguments, so far as they fit into a line. */
function brief(data) {
  if (!data || typeof data !== "object") return [];
  const said = Object.values(data)
    .filter((value) => ["string", "number", "boolean"].includes(typeof value))
    .join(", ");
  return said ? [el("span", { class: "brief", text: said.slice(0, 80) })] : [];
}

function folded(kind, name, beside, inside, drawing) {
  const summary = el("summary", {}, drawing ? icon(drawing) : null, el("span", { class: "name", text: name }), ...beside);
  return el("details", { class: `block ${kind}` }, summary, el("div", { class: "inside" }, ...inside));
}

function picture(part) {
  const url = harmless(part.url) ?? blob(part.url);
  const said = part.name || gettext("Picture");
  if (!url) return el("p", { class: "document", text: interpolate(gettext("%(name)s (%(facts)s), not stored here"), { name: said, facts: named(part) }, true) });
  // What is elsewhere is not loaded: it would tell them who reads.
  if (!isOurs(url)) return el("p", { class: "document" }, link(part.url, interpolate(gettext("%(name)s at %(host)s"), { name: said, host: url.hostname }, true)));
  const shown = el("img", { src: url.href, alt: said, decoding: "async" });
  shown.addEventListener("error", () => shown.closest(".picture")?.replaceWith(el("p", { class: "document", text: interpolate(gettext("%s: it could not be shown"), [said]) })));
  return el("a", { class: "picture", href: url.href, target: "_blank", rel: "noopener", "aria-label": interpolate(gettext("%s, opens in a new tab"), [said]) }, shown);
}

// A picture that is about to be sent is this page's own.
function blob(address) {
  return address?.startsWith(`blob:${location.origin}/`) ? new URL(address) : null;
}

function named(part) {
  const size = part.size == null ? "" : `${Math.max(1, Math.round(part.size / 1024))} KB`;
  return [part.name, part.media_type, size].filter(Boolean).join(", ") || part.kind;
}

function pretty(value) {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

function pre(text) {
  const said = String(text);
  const more = said.length - LONGEST;
  const rest = interpolate(gettext("… %s characters more"), [more]);
  const shown = more > 0 ? [said.slice(0, LONGEST), rest].join("\n") : said;
  return el("pre", { tabindex: "0", text: shown });
}
