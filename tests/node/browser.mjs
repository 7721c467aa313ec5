// A browser's window for React, and requests that carry its cookies.
import { register } from 'node:module';
import { GlobalWindow } from 'happy-dom';

register('./hooks.mjs', import.meta.url);

const realFetch = globalThis.fetch;
const { SERVER, COOKIES } = process.env;
const window = new GlobalWindow({ url: SERVER });

const globals = { window, document: window.document, navigator: window.navigator };
for (const [name, value] of Object.entries(globals)) {
  // Newer versions of Node have a navigator of their own, which only this replaces.
  Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
}
globalThis.IS_REACT_ACT_ENVIRONMENT = false;

for (const [name, value] of Object.entries(JSON.parse(COOKIES))) {
  document.cookie = `${name}=${value}; path=/`;
}

// Node's own fetch streams; it has no page and no cookies, which are added here.
export const requests = [];
globalThis.fetch = async (input, init = {}) => {
  const headers = new Headers(init.headers);
  headers.set('Cookie', document.cookie);
  const url = new URL(input, SERVER);
  const answer = await realFetch(url, { ...init, headers });
  requests.push({ method: init.method ?? 'GET', path: url.pathname, status: answer.status });
  return answer;
};
