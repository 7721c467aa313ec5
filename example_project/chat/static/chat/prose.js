// Words as models write them: paragraphs, lists, code, emphasis and links; everything else is text.

import { el, link } from "./dom.js";

const INLINE = /(`+)([^`]|[^`][\s\S]*?[^`])\1(?!`)|\*\*(\S(?:[\s\S]*?\S)?)\*\*|\[([^\]\n]{1,300})\]\((\S{1,2000}?)\)|(https?:\/\/[^\s<>"'`\u201d]{1,2000})|(\[(?:REDACTED|redacted)(?::[A-Z_]{1,40})?\])/g;
const BULLET = /^\s{0,3}[-*•]\s+(.*)$/;
const NUMBER = /^\s{0,3}\d{1,3}[.)]\s+(.*)$/;
const HEADING = /^#{1,6}\s+(.*)$/;
const LONGEST = 60000;

/** Marks what is special within a line. */
export function inline(text) {
  const made = [];
  let at = 0;
  for (const found of text.matchAll(INLINE)) {
    if (found.index > at) made.push(text.slice(at, found.index));
    at = found.index + found[0].length;
    const [whole, , code, strong, words, address, bare, mask] = found;
    if (code != null) made.push(el("code", { text: code.trim() }));
    else if (strong != null) made.push(el("strong", {}, ...inline(strong)));
    else if (address != null) made.push(link(address, words));
    else if (bare != null) {
      const end = /[.,;:!?)\]]+$/.exec(bare)?.[0] ?? "";
      made.push(link(bare.slice(0, bare.length - end.length), bare.slice(0, bare.length - end.length)), end);
    } else if (mask != null) made.push(el("mark", { class: "mask", text: mask.slice(1, -1).toLowerCase() }));
    else made.push(whole);
  }
  if (at < text.length) made.push(text.slice(at));
  return made;
}

/** What somebody typed, as it was typed. */
export const typed = (text) => el("p", { class: "words" }, ...(text.length > LONGEST ? [text] : inline(text)));

/** What a model wrote. */
export function prose(text) {
  const made = el("div", { class: "prose" });
  if (text.length > LONGEST) {
    made.append(el("p", { class: "words", text }));
    return made;
  }
  let lines = [];
  let list = null;
  const flush = () => {
    if (lines.length) made.append(el("p", { class: "words" }, ...inline(lines.join("\n"))));
    lines = [];
  };
  const item = (tag, words) => {
    flush();
    if (list?.localName !== tag) made.append((list = el(tag)));
    list.append(el("li", {}, ...inline(words)));
  };
  const source = text.split("\n");
  for (let index = 0; index < source.length; index += 1) {
    const line = source[index];
    const fence = /^\s{0,3}(`{3,}|~{3,})/.exec(line)?.[1];
    const bullet = BULLET.exec(line);
    const number = NUMBER.exec(line);
    const heading = HEADING.exec(line);
    if (fence) {
      const code = [];
      while (++index < source.length && !source[index].trimStart().startsWith(fence)) code.push(source[index]);
      flush();
      made.append(el("pre", { tabindex: "0" }, el("code", { text: code.join("\n") })));
    } else if (bullet) item("ul", bullet[1]);
    else if (number) item("ol", number[1]);
    else if (heading) {
      flush();
      made.append(el("p", { class: "words" }, el("strong", {}, ...inline(heading[1]))));
    } else if (line.trim()) lines.push(line);
    else flush();
    if (!bullet && !number) list = null;
  }
  flush();
  return made;
}
