// What the chat clients themselves do: the rows of docs/reference/client-behaviour.md, without a server.
import assert from 'node:assert/strict';
import { test } from 'node:test';

const major = process.env.AI_MAJOR ?? '7';
const { Chat } = await import(`@ai-sdk/react-${major}`);
const { DefaultChatTransport, convertToModelMessages } = await import(`ai-${major}`);

const text = (role, id, words) => ({ id, role, parts: [{ type: 'text', text: words }] });
const QUESTION = text('user', 'q1', 'Hello');
const ANSWER = text('assistant', 'a1', 'Hi');
const BEGIN = [
  { type: 'start', messageId: 'a1' },
  { type: 'text-start', id: 't' },
  { type: 'text-delta', id: 't', delta: 'Half of an ans' },
];

// A chat whose server answers with these chunks, and what it was asked.
function chat(chunks, { messages = [], status = 200 } = {}) {
  const asked = [];
  const ended = { errors: [], finished: [] };
  const fetch = async (url, init = {}) => {
    asked.push({ url: String(url), method: init.method ?? 'GET', body: init.body && JSON.parse(init.body) });
    const lines = chunks.map(one => `data: ${typeof one === 'string' ? one : JSON.stringify(one)}\n\n`);
    return new Response(status === 204 ? null : lines.join(''), {
      status,
      headers: { 'content-type': 'text/event-stream' },
    });
  };
  const made = new Chat({
    id: 'c1',
    messages: structuredClone(messages),
    transport: new DefaultChatTransport({ api: 'http://test.invalid/chat', fetch }),
    onError: error => ended.errors.push(error),
    onFinish: event => ended.finished.push(event),
  });
  return { chat: made, asked, ended };
}

const ids = made => made.messages.map(message => message.id);

test('a stream that stops without finish is a finished answer', async () => {
  const { chat: made, ended } = chat(BEGIN);
  await made.sendMessage({ text: 'Hello' });
  assert.equal(made.status, 'ready');
  assert.deepEqual(ended.errors, []);
  assert.equal(ended.finished.length, 1);
  assert.equal(made.messages.at(-1).parts.at(-1).text, 'Half of an ans');
});

test('an abort of the server is a finished answer', async () => {
  const { chat: made, ended } = chat([...BEGIN, { type: 'abort' }]);
  await made.sendMessage({ text: 'Hello' });
  assert.equal(made.status, 'ready');
  assert.deepEqual(ended.errors, []);
  assert.equal(Boolean(ended.finished[0].isAbort), false);
});

test('an error chunk is an error, and what came before it stays', async () => {
  const { chat: made, ended } = chat([...BEGIN, { type: 'error', errorText: 'interrupted' }]);
  await made.sendMessage({ text: 'Hello' });
  assert.equal(made.status, 'error');
  assert.equal(ended.errors[0].message, 'interrupted');
  assert.equal(made.messages.at(-1).parts.at(-1).text, 'Half of an ans');
});

test('sending again without words names the last message and edits nothing', async () => {
  const { chat: made, asked } = chat(BEGIN, { messages: [QUESTION] });
  await made.sendMessage();
  assert.equal(asked[0].body.trigger, 'submit-message');
  assert.equal(asked[0].body.messageId, 'q1');
  assert.deepEqual(asked[0].body.messages, [QUESTION]);
});

test('an edit names the message of the user and leaves out what came later', async () => {
  const { chat: made, asked } = chat(BEGIN, { messages: [QUESTION, ANSWER] });
  await made.sendMessage({ text: 'Good evening', messageId: 'q1' });
  assert.equal(asked[0].body.trigger, 'submit-message');
  assert.equal(asked[0].body.messageId, 'q1');
  assert.deepEqual(asked[0].body.messages.map(message => message.id), ['q1']);
});

test('another answer is asked for without the id of a message', async () => {
  const { chat: made, asked } = chat(BEGIN, { messages: [QUESTION, ANSWER] });
  await made.regenerate();
  assert.equal(asked[0].body.trigger, 'regenerate-message');
  assert.equal(asked[0].body.messageId, undefined);
  assert.deepEqual(asked[0].body.messages, [QUESTION]);
});

test('a replay continues the message of its id and otherwise adds an answer', async () => {
  const partial = { ...ANSWER, parts: [{ type: 'text', text: 'Half' }] };
  for (const [id, expected] of [['a1', ['q1', 'a1']], ['a2', ['q1', 'a1', 'a2']]]) {
    const replay = [{ ...BEGIN[0], messageId: id }, ...BEGIN.slice(1), { type: 'text-end', id: 't' }, { type: 'finish' }];
    const { chat: made, asked } = chat(replay, { messages: [QUESTION, partial] });
    await made.resumeStream();
    assert.equal(asked[0].method, 'GET');
    assert.ok(asked[0].url.endsWith('/chat/c1/stream'));
    assert.deepEqual(ids(made), expected);
  }
});

test('no content means that no answer is running', async () => {
  const { chat: made, ended } = chat([], { messages: [QUESTION], status: 204 });
  await made.resumeStream();
  assert.equal(made.status, 'ready');
  assert.deepEqual([ended.errors, ended.finished], [[], []]);
});

test('an unknown chunk is an error and unknown keys of a known one are not', async () => {
  const unknown = chat([BEGIN[0], { type: 'weather', sunny: true }]);
  await unknown.chat.sendMessage({ text: 'Hello' });
  assert.equal(unknown.chat.status, 'error');
  const more = chat([{ ...BEGIN[0], sunny: true }, { type: 'finish' }]);
  await more.chat.sendMessage({ text: 'Hello' });
  assert.equal(more.chat.status, 'ready');
});

test('a second call with the same id in a step replaces the first', async () => {
  const call = input => ({ type: 'tool-input-available', toolCallId: 'x', toolName: 'look', input });
  const { chat: made } = chat([BEGIN[0], { type: 'start-step' }, call({ at: 1 }), call({ at: 2 }), { type: 'finish' }]);
  await made.sendMessage({ text: 'Hello' });
  const calls = made.messages.at(-1).parts.filter(part => part.type === 'tool-look');
  assert.deepEqual(calls.map(part => part.input), [{ at: 2 }]);
});

test('text without its start is an error', async () => {
  const { chat: made } = chat([BEGIN[0], BEGIN[2]]);
  await made.sendMessage({ text: 'Hello' });
  assert.equal(made.status, 'error');
});

test('a message of data parts alone becomes an empty message of the model', async () => {
  const data = { role: 'user', parts: [{ type: 'data-place', data: { city: 'Lisbon' } }] };
  assert.deepEqual(await convertToModelMessages([data]), [{ role: 'user', content: [] }]);
});
