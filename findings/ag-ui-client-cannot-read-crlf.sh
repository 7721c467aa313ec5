#!/usr/bin/env bash
# @ag-ui/client 1.0.0 on Node 20: a run whose events are separated by CRLF cannot be read.
#
# The specification of server-sent events allows CRLF, and common servers send it by default. One would expect the client
# to read both. With CR LF the run ends in an error at its end, and no message arrives; with LF it is read.
#
# Seen on 2026-11-28: LF ['Hello'], CRLF rejected.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init -y >/dev/null
npm install --silent --no-audit --no-fund @ag-ui/client@1.0.0 >/dev/null
cat >run.mjs <<'JS'
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { HttpAgent } from '@ag-ui/client';

const EVENTS = [
  { type: 'RUN_STARTED', threadId: 't', runId: 'r' },
  { type: 'TEXT_MESSAGE_START', messageId: 'm', role: 'assistant' },
  { type: 'TEXT_MESSAGE_CONTENT', messageId: 'm', delta: 'Hello' },
  { type: 'TEXT_MESSAGE_END', messageId: 'm' },
  { type: 'RUN_FINISHED', threadId: 't', runId: 'r' },
];
const found = {};
for (const [name, end] of [['LF', '\n'], ['CRLF', '\r\n']]) {
  const server = createServer((request, response) => {
    request.resume();
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const event of EVENTS) response.write(`data: ${JSON.stringify(event)}${end}${end}`);
    response.end();
  });
  await new Promise(ready => server.listen(0, '127.0.0.1', ready));
  const agent = new HttpAgent({ url: `http://127.0.0.1:${server.address().port}/`, threadId: 't' });
  try {
    await agent.runAgent({ runId: 'r' });
    found[name] = agent.messages.map(message => message.content);
  } catch (error) {
    found[name] = 'rejected';
  }
  server.close();
}
console.log(found);
assert.deepEqual(found, { LF: ['Hello'], CRLF: 'rejected' }, 'this changed');
process.exit(0);
JS
node run.mjs 2>/dev/null
