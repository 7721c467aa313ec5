// Writing a message: text, and pictures from a file, the clipboard, or dropped.

import { uploadLimit } from "./api.js";
import { byId, el, icon } from "./dom.js";

const KINDS = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const MOST = 4;

export class Composer {
  #pictures = [];
  #busy = false;
  #onSend;
  #onStop;

  constructor({ onSend, onStop }) {
    this.#onSend = onSend;
    this.#onStop = onStop;
    byId("attach").append(icon("attach"));
    byId("send").append(icon("send"));
    byId("stop").append(icon("stop"));
    byId("notice-close").append(icon("close"));
    const say = byId("say");
    byId("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#send();
    });
    say.addEventListener("keydown", (event) => {
      // While somebody composes a character, Enter belongs to that.
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.#send();
    });
    say.addEventListener("input", () => this.#fit());
    say.addEventListener("paste", (event) => {
      const files = [...event.clipboardData.files];
      if (files.length) event.preventDefault();
      this.add(files);
    });
    const chat = byId("chat");
    chat.addEventListener("dragover", (event) => event.dataTransfer.types.includes("Files") && event.preventDefault());
    chat.addEventListener("drop", (event) => {
      if (!event.dataTransfer.files.length) return;
      event.preventDefault();
      this.add([...event.dataTransfer.files]);
    });
    byId("attach").addEventListener("click", () => byId("file").click());
    byId("file").addEventListener("change", () => {
      this.add([...byId("file").files]);
      byId("file").value = "";
      say.focus();
    });
    byId("stop").addEventListener("click", () => this.#onStop());
    byId("notice-close").addEventListener("click", () => {
      this.notice("");
      say.focus();
    });
  }

  /** Says what went wrong; nothing takes it away. */
  notice(words) {
    byId("notice-text").textContent = words;
    byId("notice").hidden = !words;
  }

  show(is) {
    byId("composer").hidden = !is;
    if (is) this.#fit();
  }

  focus() {
    if (!byId("composer").hidden) byId("say").focus({ preventScroll: true });
  }

  /** Whether an answer is on its way, which can be stopped. */
  set busy(is) {
    const held = [byId("send"), byId("stop")].includes(document.activeElement);
    this.#busy = is;
    byId("send").hidden = is;
    byId("stop").hidden = !is;
    if (held) this.focus();
  }

  get busy() {
    return this.#busy;
  }

  /** Puts back what could not be sent, unless something else has been begun. */
  restore({ text, pictures }) {
    const say = byId("say");
    if (!say.value) say.value = text;
    if (!this.#pictures.length) this.#pictures = pictures;
    this.#drawPictures();
    this.#fit();
  }

  clear() {
    byId("say").value = "";
    this.#pictures = [];
    this.#drawPictures();
    this.#fit();
    this.notice("");
  }

  fill(text) {
    byId("say").value = text;
    this.#fit();
    this.#send();
  }

  async add(files) {
    for (const file of files) {
      if (!KINDS.includes(file.type)) {
        this.notice(interpolate(gettext("“%s” cannot be sent: use PNG, JPEG, GIF or WebP."), [file.name]));
        continue;
      }
      if (this.#pictures.length === MOST) {
        this.notice(interpolate(gettext("A message takes at most %s pictures."), [MOST]));
        return;
      }
      const all = this.#pictures.reduce((sum, each) => sum + each.file.size, file.size);
      if (all > uploadLimit) {
        const limit = Math.floor(uploadLimit / 1024 ** 2);
        const words = gettext("“%(name)s” is too large: a message takes %(limit)s MB of pictures.");
        this.notice(interpolate(words, { name: file.name, limit }, true));
        continue;
      }
      this.#pictures.push({ file, url: URL.createObjectURL(file) });
    }
    this.#drawPictures();
  }

  #drawPictures() {
    const list = byId("attached");
    list.hidden = !this.#pictures.length;
    list.replaceChildren(
      ...this.#pictures.map((picture) =>
        el(
          "li",
          {},
          el("img", { src: picture.url, alt: picture.file.name || gettext("Picture") }),
          el("button", { type: "button", class: "icon", "aria-label": picture.file.name ? interpolate(gettext("Remove %s"), [picture.file.name]) : gettext("Remove the picture"), on: { click: () => this.#drop(picture) } }, icon("close")),
        ),
      ),
    );
  }

  #drop(picture) {
    this.#pictures = this.#pictures.filter((each) => each !== picture);
    this.#drawPictures();
    this.focus();
  }

  #send() {
    const text = byId("say").value;
    if (this.#busy || (!text.trim() && !this.#pictures.length)) return;
    const draft = { text, pictures: this.#pictures };
    this.clear();
    this.#onSend(draft);
  }

  #fit() {
    const say = byId("say");
    say.style.height = "auto";
    say.style.height = `${say.scrollHeight}px`;
  }
}

/** The parts of a message as the chat takes them. */
export async function partsOf({ text, pictures }) {
  const files = pictures.map(async ({ file }) => ({
    type: "file",
    mediaType: file.type,
    filename: file.name,
    url: await dataUrl(file),
  }));
  return [...(text.trim() ? [{ type: "text", text }] : []), ...(await Promise.all(files))];
}

/** The same message, as the transcript shows it until it is stored. */
export const preview = ({ text, pictures }) => ({
  role: "user",
  parts: [
    ...(text.trim() ? [{ kind: "text", text }] : []),
    ...pictures.map(({ file, url }) => ({ kind: "image", name: file.name, media_type: file.type, url })),
  ],
});

function dataUrl(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => resolve(reader.result));
    reader.addEventListener("error", () => reject(new Error(gettext("The picture could not be read."))));
    reader.readAsDataURL(file);
  });
}
