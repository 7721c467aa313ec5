// The REST API of the sessions, and the chat's own addresses.

import { byId, harmless, isOurs } from "./dom.js";

const place = byId("app").dataset;

/** What went wrong, in words for people. */
export class Problem extends Error {
  constructor(message, { status = 0, code = "" } = {}) {
    super(message);
    this.status = status;
    this.code = code;
  }

  /** Nothing was answered at all. */
  get isOffline() {
    return this.status === 0;
  }
}

const cookie = (name) =>
  document.cookie
    .split("; ")
    .find((each) => each.startsWith(`${name}=`))
    ?.slice(name.length + 1) ?? "";

/** Sends a request; answers the response if it is a good one. */
export async function ask(method, address, { body, query, headers = {}, signal } = {}) {
  const url = harmless(address);
  if (!url || !isOurs(url)) throw new Problem(gettext("The server named an address that is not its own."));
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value != null && value !== "") url.searchParams.set(name, value);
  }
  const sent = { Accept: "application/json", ...headers };
  if (method !== "GET") sent["X-CSRFToken"] = cookie("csrftoken");
  if (body !== undefined) sent["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(url, {
      method,
      headers: sent,
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin",
      redirect: "error",
      signal,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(gettext("The server cannot be reached. Check the connection, then try again."));
  }
  if (!answer.ok) throw await problem(answer);
  return answer;
}

async function problem(answer) {
  let said = {};
  try {
    said = await answer.json();
  } catch {
    // Not the API's own words: a proxy's, or a page.
  }
  const code = typeof said.code === "string" ? said.code : "";
  if (code === "not_authenticated" || answer.status === 401) {
    location.assign(`${place.login}?next=${encodeURIComponent(location.pathname)}`);
  }
  const words = typeof said.detail === "string" && said.detail;
  return new Problem(words || interpolate(gettext("The server could not do this (%s)."), [answer.status]), {
    status: answer.status,
    code,
  });
}

async function json(method, address, options) {
  const answer = await ask(method, address, options);
  return answer.status === 204 ? null : answer.json();
}

const session = (id) => `${place.api}sessions/${encodeURIComponent(id)}/`;
const message = (id) => `${place.api}messages/${encodeURIComponent(id)}/`;
const stream = (id, what) => `${place.stream}/${encodeURIComponent(id)}/${what}`;

export const pages = {
  home: place.home,
  chat: (id) => place.chat.replace(place.nil, id),
  /** The id of a chat's address; null for the home page. */
  id: () => /([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\/?$/i.exec(location.pathname)?.[1] ?? null,
};

/** How many bytes of pictures a message may bring along. */
export const uploadLimit = Number(place.limit);

export const sessions = {
  list: ({ q, archived }) =>
    json("GET", `${place.api}sessions/`, { query: { q, archived, limit: 30 } }),
  more: (next) => json("GET", next),
  create: (body) => json("POST", `${place.api}sessions/`, { body }),
  get: (id) => json("GET", session(id)),
  change: (id, body) => json("PATCH", session(id), { body }),
  remove: (id) => json("DELETE", session(id)),
  orchestrators: async (id) => {
    const all = (await json("GET", `${session(id)}multi-agents/`)).results;
    const whole = (each) => json("GET", `${session(id)}multi-agents/${encodeURIComponent(each.multi_agent_id)}/`);
    return Promise.all(all.map(whole));
  },
  messages: (id, query) => json("GET", `${session(id)}messages/`, { query }),
  redact: (id, body) => json("POST", `${session(id)}redact/`, { body }),
  feedback: (id) => json("GET", `${session(id)}feedback/`),
  events: (id) => `${session(id)}events/`,
};

export const messages = {
  get: (id) => json("GET", message(id)),
  redact: (id, body) => json("POST", `${message(id)}redact/`, { body }),
  rate: (id, body) => json("PUT", `${message(id)}feedback/`, { body }),
  unrate: (id) => json("DELETE", `${message(id)}feedback/`),
};

export const chat = {
  /** Sends a message; the response streams the answer. */
  send: (id, sent, signal) =>
    ask("POST", place.stream, {
      body: { id, message: sent, trigger: "submit-message" },
      headers: { Accept: "*/*" },
      signal,
    }),
  /** Joins an answer that is on its way; null if there is none. */
  async join(id, signal) {
    const answer = await ask("GET", stream(id, "stream"), {
      headers: { Accept: "*/*" },
      signal,
    });
    return answer.status === 204 ? null : answer;
  },
  stop: (id) => ask("POST", stream(id, "stop")),
};
