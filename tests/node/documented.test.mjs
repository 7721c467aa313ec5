// The client of the documentation, against the server.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Problem, agentSessions } from "../../docs/examples/agent-sessions.mjs";
import { follow } from "../../docs/examples/follow.mjs";

const headers = JSON.parse(process.env.HEADERS);
const api = agentSessions(process.env.API, { headers });
const all = async (results) => {
  const found = [];
  for await (const one of results) found.push(one);
  return found;
};

test("sessions are listed page by page", async () => {
  const found = await all(api.sessions({ limit: 2 }));
  assert.equal(found.length, 5);
  assert.equal(new Set(found.map((session) => session.id)).size, 5);
});

test("messages are read in both directions, and a secret in one goes for good", async () => {
  const [trip] = await all(api.sessions({ q: "lisbon" }));
  const messages = await all(api.messages(trip.id, { limit: 1 }));
  const backwards = await all(api.messages(trip.id, { limit: 2, order: "desc" }));
  assert.deepEqual(backwards.reverse(), messages);
  const told = messages.find((message) => message.parts[0].text.includes("4111"));
  const given = { find: "4111 1111 1111 1111", reason: "It is mine" };
  const preview = await api.redact(told.id, { ...given, dry_run: true });
  assert.equal(preview.hits.length, 1);
  await api.redact(told.id, given);
  const after = await all(api.messages(trip.id));
  assert.ok(!JSON.stringify(after).includes("4111"));
  assert.ok(!(await api.export(trip.id)).includes("4111"));
});

test("a session is opened once, renamed, archived and removed", async () => {
  const made = await api.open({ external_id: "from-node", title: "New" });
  assert.equal((await api.open({ external_id: "from-node" })).id, made.id);
  assert.equal((await api.rename(made.id, "Renamed")).title, "Renamed");
  assert.notEqual((await api.archive(made.id)).archived_at, null);
  await api.remove(made.id);
  await assert.rejects(api.session(made.id), (error) => {
    assert.ok(error instanceof Problem);
    assert.equal(error.status, 404);
    return error.code === "not_found";
  });
});

test("events are followed with headers, and after a broken line from where it broke", async () => {
  const [trip] = await all(api.sessions({ q: "lisbon" }));
  const url = `${process.env.API}sessions/${trip.id}/events/?from=start`;
  const stop = new AbortController();
  const told = [];
  let lines = 0;
  // The first line breaks after some bytes, in the middle of an event.
  const breaking = async (...given) => {
    const answer = await fetch(...given);
    if (lines++) return answer;
    let left = 1_500;
    const cut = new TransformStream({
      transform(piece, sink) {
        sink.enqueue(piece.subarray(0, left));
        left -= piece.length;
        if (left <= 0) sink.error(new Error("broken"));
      },
    });
    return { ok: true, status: 200, body: answer.body.pipeThrough(cut) };
  };
  const tell = (event, data) => {
    told.push([event, data]);
    if (told.filter(([name]) => name === "message").length === 4) stop.abort();
  };
  await assert.rejects(follow(url, tell, { headers, signal: stop.signal, fetch: breaking }), {
    name: "AbortError",
  });
  const positions = told.filter(([name]) => name === "message").map(([, data]) => data.position);
  assert.deepEqual(positions, [0, 1, 2, 3]);
  assert.equal(lines, 2);
  assert.equal(told[0][0], "ready");
});

test("following ends with an error where nobody is logged in, and does not ask for ever", async () => {
  const [trip] = await all(api.sessions({ q: "lisbon" }));
  const url = `${process.env.API}sessions/${trip.id}/events/`;
  await assert.rejects(follow(url, assert.fail), /answered 40[13]/);
});

test("following ends where there is nothing to follow", async () => {
  await follow(`${process.env.API}sessions/${crypto.randomUUID()}/events/`, assert.fail, { headers });
});
