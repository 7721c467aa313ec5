// assistant-ui's own client, unchanged, against the server.

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  CloudAPIError,
  CloudMessagePersistence,
  createFormattedPersistence,
  generateThreadTitle,
} from "assistant-cloud";
import { aiSDKV6FormatAdapter } from "assistant-cloud/ai-sdk";

import { allThreads, threadsOf } from "./assistant-cloud-setup.mjs";

const { API, ADA, BOB, SERVED } = process.env;
const cloud = threadsOf(API, async () => ADA);
const strangers = threadsOf(API, async () => BOB);

const all = async (found) => {
  const list = [];
  for await (const one of found) list.push(one);
  return list;
};
const create = async (more = {}) =>
  (await cloud.threads.create({ last_message_at: new Date(), ...more })).thread_id;
const history = () =>
  createFormattedPersistence(new CloudMessagePersistence(cloud), aiSDKV6FormatAdapter);
const text = (id, role, words) => ({ id, role, parts: [{ type: "text", text: words }] });
const TOOL = {
  type: "tool-search",
  toolCallId: "call-1",
  state: "output-available",
  input: { q: "Lisbon" },
  output: { hits: [1, 2.5, null], "": "\u0000" },
};

async function store(persistence, thread, messages) {
  let parentId = null;
  for (const message of messages) {
    await persistence.append(thread, { parentId, message });
    parentId = message.id;
  }
}

test("a conversation that the server had is opened and gone on with", async () => {
  const opened = history();
  const before = (await opened.load(SERVED)).messages;
  const words = (list) => list.map(({ message }) => message.parts.find((p) => p.type === "text").text);
  assert.deepEqual(words(before), ["Where to?", "To Lisbon."]);
  const parentId = before.at(-1).message.id;
  await opened.append(SERVED, { parentId, message: text("local-1", "user", "And then?") });
  const { messages } = await history().load(SERVED);
  assert.deepEqual(words(messages), ["Where to?", "To Lisbon.", "And then?"]);
  assert.deepEqual(
    messages.map((one) => one.parentId),
    [null, ...messages.slice(0, -1).map((one) => one.message.id)],
  );
  await cloud.threads.delete(SERVED);
});

test("threads are listed past one page, the newest first", async () => {
  const made = [];
  for (let number = 0; number < 43; number++) made.push(await create({ title: `T${number}` }));
  const found = await all(allThreads(cloud));
  assert.deepEqual(found.map((one) => one.id), made.reverse());
  assert.ok(found[0].last_message_at instanceof Date);
  assert.equal(found[0].title, "T42");
  for (const id of made) await cloud.threads.delete(id);
  assert.deepEqual(await all(allThreads(cloud)), []);
});

test("a thread is made, opened, renamed, archived, taken out and deleted", async () => {
  const id = await create({ external_id: "e-1", metadata: { colour: "blue" } });
  assert.equal(await create({ external_id: "e-1" }), id);
  const thread = await cloud.threads.get(id);
  assert.equal(thread.external_id, "e-1");
  assert.deepEqual(thread.metadata, { colour: "blue" });
  await cloud.threads.update(id, { title: "Porto" });
  assert.equal((await cloud.threads.get(id)).title, "Porto");
  await cloud.threads.update(id, { metadata: null });
  await cloud.threads.update(id, { is_archived: true });
  assert.deepEqual(await all(allThreads(cloud)), []);
  assert.equal((await all(allThreads(cloud, { archived: true })))[0].id, id);
  await cloud.threads.update(id, { is_archived: false });
  assert.equal((await all(allThreads(cloud)))[0].is_archived, false);
  await cloud.threads.delete(id);
  await assert.rejects(cloud.threads.get(id), (error) => {
    assert.ok(error instanceof CloudAPIError);
    assert.match(error.message, /Not found/);
    return error.status === 404;
  });
});

test("messages come back as they were said, and a thread that is sent again is stored once", async () => {
  const id = await create();
  const said = [
    text("local-1", "user", "Where to? \u{1F600}"),
    { id: "local-2", role: "assistant", parts: [{ type: "step-start" }, TOOL], metadata: { a: 1 } },
    text("local-3", "user", "Thanks."),
  ];
  await store(history(), id, said);
  const found = await history().load(id);
  assert.deepEqual(
    found.messages.map(({ message: { id: _, ...message } }) => message),
    said.map(({ id: _, ...message }) => message),
  );
  assert.deepEqual(
    found.messages.map((one) => one.parentId),
    [null, found.messages[0].message.id, found.messages[1].message.id],
  );
  // A client that forgot which ids the server gave.
  await store(history(), id, said);
  assert.deepEqual(await history().load(id), found);
  await cloud.threads.delete(id);
});

test("a message that was loaded is changed under its id", async () => {
  const id = await create();
  await store(history(), id, [text("local-1", "assistant", "a draft")]);
  const opened = history();
  const [{ message }] = (await opened.load(id)).messages;
  await opened.update(id, { parentId: null, message: { ...message, parts: [TOOL] } }, message.id);
  const [changed] = (await history().load(id)).messages;
  assert.deepEqual(changed.message, { ...message, parts: [TOOL] });
  await cloud.threads.delete(id);
});

test("an answer that is stored when it begins and when it ends is one message", async () => {
  const id = await create();
  const persistence = history();
  const answer = (words) => ({ parentId: "q", message: text("a", "assistant", words) });
  await persistence.append(id, { parentId: null, message: text("q", "user", "Where to?") });
  await persistence.append(id, answer("To Lis"), "running");
  await persistence.append(id, answer("To Lisbon."), "done");
  const { messages } = await history().load(id);
  assert.deepEqual(messages.map(({ message }) => message.parts[0].text), ["Where to?", "To Lisbon."]);
  await cloud.threads.delete(id);
});

test("equal texts are messages of their own, and a deleted message is gone", async () => {
  const id = await create();
  const said = ["u1", "u2", "u3"].map((key) => text(key, "user", "yes"));
  const persistence = history();
  for (const message of said) await persistence.append(id, { parentId: null, message });
  await persistence.append(id, { parentId: "u2", message: text("a", "assistant", "sure?") });
  await persistence.delete(id, [{ parentId: null, message: said[1] }]);
  const { messages } = await history().load(id);
  assert.deepEqual(messages.map(({ message }) => message.parts[0].text), ["yes", "yes", "sure?"]);
  assert.equal(messages[2].parentId, null);
  await assert.rejects(cloud.threads.messages.delete(id, ["unknown"]), { status: 404 });
  await cloud.threads.delete(id);
});

test("a thread of more than one page is loaded whole, in order", async () => {
  const id = await create();
  const said = Array.from({ length: 205 }, (_, n) => text(`m-${n}`, n % 2 ? "assistant" : "user", `${n}`));
  await store(history(), id, said);
  const { messages } = await history().load(id);
  assert.deepEqual(messages.map(({ message }) => message.parts[0].text), said.map((_, n) => `${n}`));
  await cloud.threads.delete(id);
});

test("two appends at once are stored under the right parent", async () => {
  const id = await create();
  const persistence = history();
  const [question, answer] = [text("q", "user", "Q"), text("a", "assistant", "A")];
  await Promise.all([
    persistence.append(id, { parentId: null, message: question }),
    persistence.append(id, { parentId: "q", message: answer }),
  ]);
  const { messages } = await history().load(id);
  assert.equal(messages[1].parentId, messages[0].message.id);
  await cloud.threads.delete(id);
});

test("a title is streamed and kept", async () => {
  const id = await create();
  const messages = [{ role: "user", content: [{ type: "text", text: "Where to in May?" }] }];
  assert.equal(await generateThreadTitle(cloud, { threadId: id, messages }), "Where to in May?");
  assert.equal((await cloud.threads.get(id)).title, "Where to in May?");
  await cloud.threads.delete(id);
});

test("a message is rated, and rated again", async () => {
  const id = await create();
  await store(history(), id, [text("x", "assistant", "To Lisbon.")]);
  const [message] = (await cloud.threads.messages.list(id)).messages;
  const first = await cloud.threads.messages.feedback(id, message.id, { type: "positive" });
  assert.equal(first.type, "positive");
  const again = { type: "negative", comment: "Too far." };
  const second = await cloud.threads.messages.feedback(id, message.id, again);
  assert.deepEqual(second, { ...again, feedback_id: first.feedback_id });
  await assert.rejects(
    strangers.threads.messages.feedback(id, message.id, { type: "positive" }),
    (error) => error.status === 404,
  );
  await cloud.threads.delete(id);
});

test("a stranger finds nothing", async () => {
  const id = await create();
  await store(history(), id, [text("x", "user", "mine")]);
  const missing = (error) => error.status === 404;
  assert.deepEqual(await all(allThreads(strangers)), []);
  await assert.rejects(strangers.threads.get(id), missing);
  await assert.rejects(strangers.threads.messages.list(id), missing);
  await assert.rejects(strangers.threads.update(id, { title: "x" }), missing);
  await assert.rejects(strangers.threads.delete(id), missing);
  const nobody = threadsOf(API, async () => `${ADA}x`);
  await assert.rejects(nobody.threads.list(), (error) => error.status === 401);
  await cloud.threads.delete(id);
});
