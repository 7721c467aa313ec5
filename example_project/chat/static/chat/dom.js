// Making elements. Text is only ever set as text, and an address only when it is harmless.

const SVG = "http://www.w3.org/2000/svg";

const SHAPES = {
  archive: ["M3 5h18v4H3z", "M5 9v10h14V9", "M10 13h4"],
  attach: ["M4 6h16v12H4z", "M4 16l5-5 4 4 3-3 4 4", "M9 9.5h.01"],
  bad: ["M3 13h4V4H3z", "M7 12.5l4.5 8a2.4 2.4 0 0 0 2.4-2.9l-.7-3.6h5.8a2 2 0 0 0 2-2.5l-1.5-6a2 2 0 0 0-2-1.5H7"],
  close: ["M6 6l12 12", "M18 6L6 18"],
  down: ["M12 5v14", "M6 13l6 6 6-6"],
  erase: ["M4 12h16", "M7 7l10 0", "M7 17l6 0"],
  good: ["M3 11h4v9H3z", "M7 11.5l4.5-8a2.4 2.4 0 0 1 2.4 2.9l-.7 3.6h5.8a2 2 0 0 1 2 2.5l-1.5 6a2 2 0 0 1-2 1.5H7"],
  menu: ["M4 7h16", "M4 12h16", "M4 17h16"],
  pencil: ["M4 20l1-4L16 5l3 3L8 19z"],
  plus: ["M12 5v14", "M5 12h14"],
  send: ["M12 19V5", "M6 11l6-6 6 6"],
  stop: ["M8 8h8v8H8z"],
  tool: ["M14 7a4 4 0 0 1 5-2l-3 3 2 2 3-3a4 4 0 0 1-5.5 4.5L9 18l-3-3 6.5-6.5A4 4 0 0 1 14 7z"],
  trash: ["M5 7h14", "M9 7V4h6v3", "M7 7l1 13h8l1-13", "M10 11v5", "M14 11v5"],
};

/** Makes an element: `text`, `class`, `data` and `on` are themselves, all else is an attribute. */
export function el(tag, { text, data, on, ...attributes } = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) made.setAttribute(name, "");
    else if (value !== false && value != null) made.setAttribute(name, String(value));
  }
  Object.assign(made.dataset, data ?? {});
  for (const [name, heard] of Object.entries(on ?? {})) made.addEventListener(name, heard);
  if (text != null) made.textContent = text;
  made.append(...children.filter((child) => child != null));
  return made;
}

/** Draws one of our icons; what it means is said by what it is in. */
export function icon(name) {
  const drawn = document.createElementNS(SVG, "svg");
  drawn.setAttribute("viewBox", "0 0 24 24");
  drawn.setAttribute("aria-hidden", "true");
  for (const shape of SHAPES[name]) {
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("d", shape);
    drawn.append(path);
  }
  return drawn;
}

export const byId = (id) => document.getElementById(id);

/** Reads an address that is ours, or on the web; null for any other. */
export function harmless(address) {
  if (!address) return null;
  let url;
  try {
    url = new URL(address, location.href);
  } catch {
    return null;
  }
  return url.protocol === "https:" || url.protocol === "http:" ? url : null;
}

export const isOurs = (url) => url.origin === location.origin;

/** A link, or only its words if its address is none to follow. */
export function link(address, words) {
  const url = harmless(address);
  if (!url) return document.createTextNode(words);
  const made = el("a", { href: url.href, text: words });
  if (!isOurs(url)) {
    made.target = "_blank";
    made.rel = "noopener noreferrer nofollow";
  }
  return made;
}

/** Says something to people who hear the page. */
export function announce(text) {
  byId("said").textContent = text;
}

/** The language of the page, for dates and numbers; as in the reader's region, if it is theirs. */
const page = document.documentElement.lang;
export const language = navigator.languages.find((each) => each.split("-")[0] === page) ?? page;

const DAY = 24 * 60 * 60 * 1000;

/** A time, as short as it may be today. */
export function when(moment) {
  const date = new Date(moment);
  if (Number.isNaN(date.getTime())) return el("span");
  const far = Date.now() - date.getTime() > DAY / 2 && date.toDateString() !== new Date().toDateString();
  const words = far
    ? date.toLocaleDateString(language, { day: "numeric", month: "short" })
    : date.toLocaleTimeString(language, { hour: "2-digit", minute: "2-digit" });
  return el("time", { datetime: moment, title: date.toLocaleString(language), text: words });
}
