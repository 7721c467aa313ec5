// A small client of the REST API, for browsers and Node. Copy and adapt it.

export class Problem extends Error {
  constructor(status, body) {
    super(body.detail ?? `The server answered ${status}.`);
    this.status = status;
    this.code = body.code;
    this.errors = body.errors;
  }
}

// From another origin, give `credentials: "include"` for cookies, or a token as a header.
export function agentSessions(
  base,
  { headers = {}, credentials = "same-origin", fetch = globalThis.fetch } = {},
) {
  async function call(method, url, { body, etag } = {}) {
    const response = await fetch(new URL(url, base), {
      method,
      credentials,
      headers: {
        ...headers,
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
        ...(etag ? { "If-Match": etag } : {}),
      },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    if (!response.ok) throw new Problem(response.status, await response.json().catch(() => ({})));
    return response;
  }
  const read = async (url) => (await call("GET", url)).json();

  // Iterates over all results of all pages of a list.
  async function* each(url) {
    while (url) {
      const page = await read(url);
      yield* page.results;
      url = page.next;
    }
  }

  return {
    sessions: (query = {}) => each(`sessions/?${new URLSearchParams(query)}`),
    // The same external_id returns the same session; a title replaces its title.
    open: async (given) => (await call("POST", "sessions/", { body: given })).json(),
    session: (id) => read(`sessions/${id}/`),
    messages: (id, query = {}) => each(`sessions/${id}/messages/?${new URLSearchParams(query)}`),
    async rename(id, title) {
      // If the session was changed in between, the answer is a Problem with status 412.
      const etag = (await call("GET", `sessions/${id}/`)).headers.get("ETag");
      return (await call("PATCH", `sessions/${id}/`, { body: { title }, etag })).json();
    },
    archive: async (id, archived = true) =>
      (await call("PATCH", `sessions/${id}/`, { body: { archived } })).json(),
    remove: (id) => call("DELETE", `sessions/${id}/`),
    // First with dry_run, for a preview; then with a reason.
    redact: async (message, given) =>
      (await call("POST", `messages/${message}/redact/`, { body: given })).json(),
    export: async (id, form = "markdown") =>
      (await call("GET", `sessions/${id}/export/?as=${form}`)).text(),
  };
}
