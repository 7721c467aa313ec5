// A client in TypeScript whose types are those of the OpenAPI document: it only has to compile.

import type { components, operations, paths } from "./api";

type Session = components["schemas"]["Session"];
type Message = components["schemas"]["Message"];
type Part = components["schemas"]["Part"];
type Problem = components["schemas"]["Problem"];
type Query<Name extends keyof operations> = operations[Name]["parameters"]["query"];
type Body<Name extends keyof operations> = operations[Name] extends {
  requestBody?: { content: { "application/json": infer Given } };
}
  ? Given
  : never;

const base = "https://example.org";

async function ask<Answer>(path: string, init?: RequestInit): Promise<Answer> {
  const answer = await fetch(base + path, init);
  if (!answer.ok) {
    const problem: Problem = await answer.json();
    throw new Error(`${problem.status} ${problem.code}: ${problem.detail}`);
  }
  return answer.json();
}

export async function open(given: Body<"sessions_create">): Promise<Session> {
  const path: keyof paths = "/api/sessions/";
  return ask(path, { method: "POST", body: JSON.stringify(given) });
}

export async function* messages(
  session: string,
  query: Query<"messages_list"> = {},
): AsyncGenerator<Message> {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) given.set(name, String(value));
  let path: string | null = `/api/sessions/${session}/messages/?${given}`;
  while (path !== null) {
    const page: components["schemas"]["PaginatedMessageList"] = await ask(path);
    yield* page.results;
    path = page.next;
  }
}

// Parts hold parts, at any depth.
export const texts = (parts: readonly Part[]): string[] =>
  parts.flatMap((part) => [part.text, ...texts(part.parts)]);

export const headline = (session: Session): string =>
  session.title || (session.first_text?.text ?? "") || session.session_id;

export async function redact(message: Message): Promise<number> {
  const scope: Body<"messages_redact"> = {
    path: message.parts[0]?.path ?? [],
    reason: "Asked for",
    detectors: ["email"],
  };
  const found: components["schemas"]["Redaction"] = await ask(
    `/api/messages/${message.id}/redact/`,
    { method: "POST", body: JSON.stringify(scope) },
  );
  return found.hits.length;
}

await open({ external_id: "thread-1", title: "A trip", metadata: { channel: ["web"] } });
for await (const message of messages("0", { order: "desc", limit: 10, raw: true })) {
  const kind: "text" | "reasoning" | undefined | string = message.parts[0]?.kind;
  console.log(kind, message.redacted_at?.slice(0, 10), texts(message.parts), headline);
}

// What the document does not have is an error.
// @ts-expect-error
await open({ session_id: "mine" });
// @ts-expect-error
messages("0", { order: "sideways" });
// @ts-expect-error
export const never = (part: Part): "video" => part.kind;
// @ts-expect-error: it may be null.
export const moment = (session: Session): string => session.archived_at;
