// What others write into the open chat, as it happens: server-sent events, resumed by their ids.

const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 10000;

export class Live {
  #source = null;
  #url = "";
  #timer = 0;
  #pause = FIRST_PAUSE;
  #wasDown = false;
  #handlers;

  /**
   * @param {{onMessage: Function, onSession: Function, onRemoved: Function, onFeedback: Function, onReset: Function, onGone: Function,
   *   onState: Function, onAgain: Function}} handlers
   */
  constructor(handlers) {
    this.#handlers = handlers;
    addEventListener("offline", () => this.#url && this.#down("offline"));
    addEventListener("online", () => this.#url && this.#connect());
    document.addEventListener("visibilitychange", () => {
      // A browser has few connections to a server: what is not looked at needs none.
      if (!this.#url) return;
      if (document.hidden) this.#close();
      else this.#connect({ caughtUp: false });
    });
  }

  /** Follows a session from now on. */
  follow(url) {
    this.stop();
    this.#url = url;
    this.#connect();
  }

  stop() {
    this.#url = "";
    this.#wasDown = false;
    this.#close();
    this.#handlers.onState("");
  }

  #close() {
    clearTimeout(this.#timer);
    this.#source?.close();
    this.#source = null;
  }

  #connect({ caughtUp = true } = {}) {
    this.#close();
    if (!caughtUp) this.#wasDown = true;
    const source = (this.#source = new EventSource(this.#url));
    source.addEventListener("open", () => {
      // It was under way when the browser went offline: what follows is read when it is back.
      if (!navigator.onLine) return;
      this.#pause = FIRST_PAUSE;
      this.#handlers.onState("");
      // The browser sends the last event's id where it reconnects by itself. Where we had to, or
      // where the server no longer knows that id, reading what is new again makes up for it.
      if (this.#wasDown) this.#handlers.onAgain();
      this.#wasDown = false;
    });
    source.addEventListener("error", () => {
      if (source !== this.#source) return;
      this.#down(navigator.onLine ? "reconnecting" : "offline", source);
    });
    for (const [name, heard] of [
      ["message", this.#handlers.onMessage],
      ["session", this.#handlers.onSession],
      ["removed", this.#handlers.onRemoved],
      ["feedback", this.#handlers.onFeedback],
      ["reset", this.#handlers.onReset],
      ["end", ({ reason }) => reason === "gone" && this.#handlers.onGone()],
    ]) {
      source.addEventListener(name, (event) => source === this.#source && heard(JSON.parse(event.data)));
    }
  }

  #down(state, source = this.#source) {
    this.#wasDown = true;
    this.#handlers.onState(state);
    // It tries again by itself, unless the server refused or could not be reached at all.
    if (!source || source.readyState !== EventSource.CLOSED) return;
    this.#close();
    this.#timer = setTimeout(() => this.#connect(), this.#pause);
    this.#pause = Math.min(this.#pause * 2, LONGEST_PAUSE);
  }
}
