// Follows a session's events with headers of your own, which EventSource cannot send.

export async function follow(url, tell, { headers = {}, signal, fetch = globalThis.fetch } = {}) {
  let last = "";
  for (;;) {
    const asked = { ...headers, Accept: "text/event-stream", ...(last && { "Last-Event-ID": last }) };
    const answer = await fetch(url, { headers: asked, signal }).catch(() => null);
    signal?.throwIfAborted();
    if (answer?.status === 404) return; // The session is gone, or belongs to another user now.
    if (answer?.status >= 400 && answer.status < 500 && answer.status !== 429) {
      // A retry would not help, for example with an expired token.
      throw new Error(`The server answered ${answer.status}.`);
    }
    if (answer?.ok) {
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = "";
      // A lost connection is treated like an ended one: the next continues after the last event.
      for (let piece; !(piece = await reader.read().catch(() => ({ done: true }))).done; ) {
        const events = (text + piece.value).split("\n\n");
        text = events.pop();
        for (const event of events) {
          const field = (name) => event.match(new RegExp(`^${name}: ?(.*)$`, "m"))?.[1];
          if (field("event")) tell(field("event"), JSON.parse(field("data")));
          last = field("id") ?? last;
        }
      }
      signal?.throwIfAborted();
    }
    // Reconnect at once after an end, later after an error such as too many streams.
    await new Promise((resolve) => setTimeout(resolve, answer?.ok ? 100 : 10_000));
  }
}
