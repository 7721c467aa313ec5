// useChat of the AI SDK, in the documentation's component, against a real server.
import './browser.mjs';
import assert from 'node:assert/strict';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createElement } from 'react';
import { createRoot } from 'react-dom/client';
import { requests } from './browser.mjs';

const { GATES } = process.env;
const TOKEN = JSON.parse(process.env.COOKIES).csrftoken;
const { Chat, loadMessages } = await import('../../docs/examples/ai_sdk_chat.jsx');

const { DefaultChatTransport, readUIMessageStream, validateUIMessages } = await import(
  `ai-${process.env.AI_MAJOR}`
);

const roots = new Set();
after(async () => {
  for (const root of roots) root.unmount();
  await sleep(0);
  // React and the AI SDK leave timers behind.
  setImmediate(() => process.exit());
});

async function until(what, condition) {
  const deadline = Date.now() + 30_000;
  for (;;) {
    const found = await condition();
    if (found) return found;
    assert.ok(Date.now() < deadline, `waited in vain for ${what}`);
    await sleep(10);
  }
}

// A page with the documentation's component; it is closed as a tab is.
async function open(id, loaded) {
  const place = document.createElement('div');
  document.body.append(place);
  const root = createRoot(place);
  roots.add(root);
  const initialMessages = loaded ?? (await loadMessages(id));
  const earlier = requests.length;
  root.render(createElement(Chat, { id, initialMessages }));
  await until('the page', () => place.querySelector('form'));
  // useChat asks for a running answer first; a late "there is none" hides the error of a request.
  const path = `/${encodeURIComponent(id)}/stream`;
  await until('the reconnect', () => requests.slice(earlier).some(one => one.path.endsWith(path)));
  await sleep(0);
  const page = {
    place,
    status: () => place.querySelector('main').dataset.status,
    ready: () => until('an answer', () => page.status() === 'ready'),
    shown: () => shown(place),
    says: words => until(words, () => place.textContent.includes(words)),
    async send(text) {
      const input = place.querySelector('input');
      const { set } = Object.getOwnPropertyDescriptor(window.HTMLInputElement.prototype, 'value');
      set.call(input, text);
      input.dispatchEvent(new window.Event('input', { bubbles: true }));
      await until('the text', () => input.value === text);
      place
        .querySelector('form')
        .dispatchEvent(new window.Event('submit', { bubbles: true, cancelable: true }));
      await until('the request', () => page.status() !== 'ready' || input.value === '');
    },
    stop: () => place.querySelector('button[type=button]').click(),
    async close() {
      root.unmount();
      roots.delete(root);
      place.remove();
    },
  };
  return page;
}

function shown(place) {
  return [...place.querySelectorAll('section')].map(section => ({
    role: section.dataset.role,
    parts: [...section.children].map(part => `${part.dataset.state ?? ''}${part.textContent}`),
  }));
}

const gate = () => `node-${process.env.AI_MAJOR}-${Math.random().toString(36).slice(2)}`;
const reached = name => until(name, () => existsSync(join(GATES, `${name}.waiting`)));
const pass = name => writeFileSync(join(GATES, name), '');

// What is on the page is what a new page would show.
async function sameAfterReload(page, id) {
  const fresh = await open(id);
  assert.deepEqual(fresh.shown(), page.shown());
  await fresh.close();
}

test('an answer streams, and a reload shows the same', async () => {
  const page = await open('talk');
  await page.send('Hello there');
  await page.says('You said: Hello there');
  await page.ready();
  assert.deepEqual(page.shown(), [
    { role: 'user', parts: ['Hello there'] },
    { role: 'assistant', parts: ['You said: Hello there'] },
  ]);
  await sameAfterReload(page, 'talk');
  await page.close();
});

test('the conversation goes on after a reload', async () => {
  const page = await open('talk');
  await page.send('recall');
  await page.says('I was told: ["Hello there", "You said: Hello there", "recall"]');
  await page.ready();
  await sameAfterReload(page, 'talk');
  await page.close();
});

test('a tool is called, and its result shown', async () => {
  const page = await open('tools');
  await page.send('weather Paris');
  await page.says('I looked: It is sunny in Paris.');
  await page.ready();
  assert.deepEqual(page.shown()[1].parts, [
    'Let me look. ',
    'output-availableweather"It is sunny in Paris."',
    'I looked: It is sunny in Paris.',
  ]);
  await sameAfterReload(page, 'tools');
  await page.close();
});

test('thoughts are shown', async () => {
  const page = await open('thoughts');
  await page.send('think hard');
  await page.says('I thought about it.');
  await page.ready();
  assert.equal(page.shown()[1].parts[0], 'Hmm, hard');
  await sameAfterReload(page, 'thoughts');
  await page.close();
});

test('a page that was left in the middle of an answer gets all of it when it is back', async () => {
  const name = gate();
  const left = await open('left');
  await left.send(`wait ${name}`);
  await left.says('One');
  await left.close();
  await reached(name);

  const back = await open('left');
  await back.says('One');
  assert.equal(back.status(), 'streaming');
  pass(name);
  await back.says('One two.');
  await back.ready();
  assert.deepEqual(back.shown(), [
    { role: 'user', parts: [`wait ${name}`] },
    { role: 'assistant', parts: ['One two.'] },
  ]);
  await sameAfterReload(back, 'left');
  await back.close();
});

test('a page that was loaded just before an answer ended gets it all the same', async () => {
  const name = gate();
  const first = await open('just');
  await first.send(`wait ${name}`);
  await first.says('One');
  await reached(name);
  const loaded = await loadMessages('just');
  assert.deepEqual(
    loaded.map(message => message.role),
    ['user'],
  );
  pass(name);
  await first.ready();

  const second = await open('just', loaded);
  await second.says('One two.');
  await second.ready();
  assert.deepEqual(second.shown(), first.shown());
  await second.close();
  // A page that has the answer does not get it twice.
  await sameAfterReload(first, 'just');
  await first.close();
});

test('an answer is stopped on the server, and the next one is given', async () => {
  const name = gate();
  const page = await open('stopped');
  await page.send(`wait ${name}`);
  await page.says('One');
  page.stop();
  await page.ready();
  await until('the stop', () =>
    requests.some(one => one.path.endsWith('/stopped/stop') && one.status === 204),
  );
  await page.send('Go on');
  await page.says('You said: Go on');
  await page.ready();
  assert.doesNotMatch(page.place.textContent, /two\./);
  await page.close();
});

test('an agent that fails is told of, without what it said', async () => {
  const page = await open('failing');
  await page.send('fail Ada');
  await page.says('The assistant could not answer.');
  assert.doesNotMatch(page.place.textContent, /sk-secret/);
  await page.close();
});

test('a refusal says in words what to do', async () => {
  const page = await open('refused');
  // JavaScript cuts a text within an emoji.
  await page.send('Well done 🎉'.slice(0, -1));
  const alert = await until('the refusal', () => page.place.querySelector('[role=alert]'));
  assert.match(alert.textContent, /^message: Contains a lone surrogate/);
  await page.close();
});

for (const api of ['/api/support', '/api/research']) {
  for (const text of ['Hello there', 'weather Paris', 'both Rome Oslo', 'think of it']) {
    test(`${api} streams "${text}" as the transcript has it, part by part`, async () => {
      const transport = new DefaultChatTransport({ api, headers: { 'X-CSRFToken': TOKEN } });
      const id = `${api}-${text}`;
      const stream = await transport.sendMessages({
        chatId: id,
        messages: [{ id: 'm-1', role: 'user', parts: [{ type: 'text', text }] }],
        trigger: 'submit-message',
      });
      let message;
      for await (const found of readUIMessageStream({ stream })) message = found;

      const answer = await fetch(`${api}/${encodeURIComponent(id)}/messages`);
      const messages = await answer.json();
      // What the stream calls a thought while it is written is nothing that is kept.
      const unnamed = message.parts.map(({ id, ...part }) => part);
      assert.deepEqual(JSON.parse(JSON.stringify(unnamed)), messages[1].parts);
      assert.equal(message.role, messages[1].role);
      // The AI SDK's own schema of messages.
      assert.deepEqual(await validateUIMessages({ messages }), messages);
    });
  }
}
