#!/usr/bin/env bash
# ai 7.0.173 with @ai-sdk/react 4.0.177 on Node 20: an answer whose stream stops in the middle is a finished answer.
#
# One would expect `useChat` to report an error if the server ends the response without `finish` and `[DONE]`, or sends
# an `abort` chunk. It calls onFinish, not onError, and its status is `ready` with half of the text. Only an `error`
# chunk or a broken connection is an error.
#
# Seen on 2026-11-28: stopped ready, abort ready, error chunk error; the text is "Half of an ans" each time.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init -y >/dev/null
npm install --silent --no-audit --no-fund ai@7.0.173 @ai-sdk/react@4.0.177 react@19.3.1 zod@4.1.8 >/dev/null
cat >run.mjs <<'JS'
import assert from 'node:assert/strict';
import { Chat } from '@ai-sdk/react';
import { DefaultChatTransport } from 'ai';

const BEGIN = [
  { type: 'start', messageId: 'a1' },
  { type: 'text-start', id: 't' },
  { type: 'text-delta', id: 't', delta: 'Half of an ans' },
];
const found = {};
for (const [name, end] of Object.entries({
  stopped: [],
  abort: [{ type: 'abort' }],
  error: [{ type: 'error', errorText: 'interrupted' }],
})) {
  const body = [...BEGIN, ...end].map(chunk => `data: ${JSON.stringify(chunk)}\n\n`).join('');
  const fetch = async () => new Response(body, { headers: { 'content-type': 'text/event-stream' } });
  const chat = new Chat({ transport: new DefaultChatTransport({ api: 'http://test.invalid/', fetch }) });
  await chat.sendMessage({ text: 'Hello' });
  found[name] = [chat.status, chat.messages.at(-1).parts.at(-1).text];
}
console.log(found);
assert.deepEqual(found, {
  stopped: ['ready', 'Half of an ans'],
  abort: ['ready', 'Half of an ans'],
  error: ['error', 'Half of an ans'],
}, 'this changed');
JS
node run.mjs
