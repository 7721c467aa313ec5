// The UI message stream: an answer on its way, chunk by chunk, as server-sent events.

/** Reads the chunks of a response. */
export async function* chunks(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      rest += value;
      const events = rest.split(/\r?\n\r?\n/);
      rest = events.pop();
      for (const event of events) {
        const data = event
          .split(/\r?\n/)
          .filter((line) => line.startsWith("data:"))
          .map((line) => line.slice(5).replace(/^ /, ""))
          .join("\n");
        if (data === "[DONE]") return;
        if (data) yield JSON.parse(data);
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** An answer as far as it has come. Its parts are like those of stored messages. */
export class Answer {
  parts = [];
  ended = false;
  stopped = false;
  error = "";
  #open = new Map();

  /** Takes a chunk; answers the part that it changed, if it changed one. */
  take(chunk) {
    switch (chunk.type) {
      case "text-start":
        return this.#begin(`text ${chunk.id}`, "text");
      case "reasoning-start":
        return this.#begin(`reasoning ${chunk.id}`, "reasoning");
      case "text-delta":
        return this.#grow(`text ${chunk.id}`, "text", chunk.delta);
      case "reasoning-delta":
        return this.#grow(`reasoning ${chunk.id}`, "reasoning", chunk.delta);
      case "tool-input-start":
        return this.#call(chunk);
      case "tool-input-available":
      case "tool-input-error":
        return Object.assign(this.#call(chunk), {
          data: chunk.input ?? null,
          ...(chunk.errorText ? { result: { status: "error", text: chunk.errorText } } : {}),
        });
      case "tool-output-available":
        return Object.assign(this.#call(chunk), { result: output(chunk.output) });
      case "tool-output-error":
        return Object.assign(this.#call(chunk), {
          result: { status: "error", text: String(chunk.errorText ?? "") },
        });
      case "error":
        this.error = String(chunk.errorText || gettext("The agent could not answer."));
        this.ended = true;
        return null;
      case "abort":
        this.stopped = true;
        this.ended = true;
        return null;
      case "finish":
        this.ended = true;
        return null;
      default:
        return null;
    }
  }

  get text() {
    return this.parts
      .filter((part) => part.kind === "text")
      .map((part) => part.text)
      .join("\n");
  }

  #begin(key, kind) {
    const part = { kind, text: "", key };
    this.#open.set(key, part);
    this.parts.push(part);
    return part;
  }

  #grow(key, kind, delta) {
    const part = this.#open.get(key) ?? this.#begin(key, kind);
    part.text += delta;
    return part;
  }

  #call({ toolCallId, toolName }) {
    const key = `call ${toolCallId}`;
    const part = this.#open.get(key) ?? this.#begin(key, "tool_call");
    if (toolName) part.name = toolName;
    part.call_id = toolCallId;
    return part;
  }
}

function output(value) {
  if (typeof value === "string") return { status: "success", text: value };
  return { status: "success", text: "", data: value };
}
