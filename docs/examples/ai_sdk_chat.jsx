import { useChat } from '@ai-sdk/react';
import { DefaultChatTransport } from 'ai';
import { useState } from 'react';

const api = '/api/support';

// Django's CSRF token.
function headers() {
  const [, token] = document.cookie.match(/(?:^|;\s*)csrftoken=([^;]*)/) ?? [];
  return token ? { 'X-CSRFToken': token } : {};
}

// The conversations that were loaded without an answer to their last message.
const unanswered = new Set();

const transport = new DefaultChatTransport({
  api,
  headers,
  // The server has the conversation: send the user's last message only. After an error it is sent
  // again, and followed by the beginning of an answer.
  prepareSendMessagesRequest: ({ id, messages, trigger, messageId, headers }) => ({
    headers,
    body: { id, message: messages.findLast(one => one.role === 'user'), trigger, messageId },
  }),
  // The answer may just have ended; the server still sends it for some seconds.
  prepareReconnectToStreamRequest: ({ id }) => ({
    api: `${api}/${encodeURIComponent(id)}/stream${unanswered.has(id) ? '?unanswered=true' : ''}`,
  }),
});

// Returns the latest page of a conversation's messages; empty if it does not exist yet.
export async function loadMessages(id) {
  const answer = await fetch(`${api}/${encodeURIComponent(id)}/messages`);
  if (answer.status === 404) return [];
  if (!answer.ok) throw new Error((await answer.json()).message);
  const messages = await answer.json();
  if (messages.at(-1)?.role === 'user') unanswered.add(id);
  else unanswered.delete(id);
  return messages;
}

export function Chat({ id, initialMessages }) {
  const [text, setText] = useState('');
  const { messages, sendMessage, status, error, stop } = useChat({
    id,
    messages: initialMessages,
    transport,
    // Continues an answer that was running when the page was left.
    resume: true,
  });
  const busy = status === 'submitted' || status === 'streaming';

  async function stopAnswer() {
    // Leaving does not stop an answer: ask the server, which ends the stream.
    const path = `${api}/${encodeURIComponent(id)}/stop`;
    const answer = await fetch(path, { method: 'POST', headers: headers() });
    if (!answer.ok) await stop();
  }

  function submit(event) {
    event.preventDefault();
    sendMessage({ text });
    setText('');
  }

  return (
    <main data-status={status}>
      {messages.map(message => (
        <section key={message.id} data-role={message.role}>
          {message.parts.map((part, index) => (
            <Part key={index} part={part} />
          ))}
        </section>
      ))}
      {error && <p role="alert">{explained(error)}</p>}
      <form onSubmit={submit}>
        <input value={text} onChange={event => setText(event.target.value)} />
        <button disabled={busy}>Send</button>
        <button type="button" onClick={stopAnswer} disabled={!busy}>
          Stop
        </button>
      </form>
    </main>
  );
}

// An error is a problem (RFC 9457), which the AI SDK passes on as a string.
function explained(error) {
  try {
    return JSON.parse(error.message).detail;
  } catch {
    return error.message;
  }
}

function Part({ part }) {
  switch (part.type) {
    case 'text':
      return <p>{part.text}</p>;
    case 'reasoning':
      return <details>{part.text}</details>;
    case 'dynamic-tool':
      return (
        <details data-state={part.state}>
          <summary>{part.toolName}</summary>
          {part.state === 'output-error' ? part.errorText : JSON.stringify(part.output)}
        </details>
      );
    case 'file':
      return part.mediaType.startsWith('image/') ? (
        <img src={part.url} alt={part.filename ?? ''} />
      ) : (
        <a href={part.url}>{part.filename ?? part.mediaType}</a>
      );
    default:
      return null;
  }
}
