"""The statements of two chat requests: a message of assistant-ui, and a turn of ``useChat``."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import strands
from django.test import AsyncClient, Client
from strands.models.model import Model

from django_agent_sessions.adapters.strands import DjangoSessionManager
from django_agent_sessions.rest.chat.ai_sdk import Chat, ChatView


class _Echo(Model):
    """A model that says the same each time."""

    def update_config(self, **model_config: Any) -> None:
        """There is nothing to configure."""

    def get_config(self) -> dict[str, Any]:
        return {"model_id": "echo"}

    def structured_output(self, *args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
        raise NotImplementedError

    async def stream(self, *args: Any, **kwargs: Any) -> AsyncGenerator[Any]:
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockDelta": {"delta": {"text": "I hear you."}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}


class EchoChat(ChatView):
    """A chat with an agent of Strands, as the documentation has it."""

    async def respond(self, chat: Chat) -> Any:
        manager = await DjangoSessionManager.load(
            chat.session_id, owner=chat.owner, namespace=chat.namespace, scope=chat.scope
        )
        agent = strands.Agent(model=_Echo(), session_manager=manager, callback_handler=None)
        return agent.stream_async(chat.strands_input)


@contextmanager
def statements() -> Iterator[list[str]]:
    """Collect what all threads send, savepoints included; psycopg begins and ends transactions."""
    found: list[str] = []
    execute = psycopg.Cursor.execute

    def collecting(cursor: Any, query: Any, *args: Any, **kwargs: Any) -> Any:
        found.append(str(query))
        return execute(cursor, query, *args, **kwargs)

    psycopg.Cursor.execute = collecting  # type: ignore[method-assign] # counted
    try:
        yield found
    finally:
        psycopg.Cursor.execute = execute  # type: ignore[method-assign] # as it was


def cloud_append(person: Any) -> list[str]:
    """Append a second message to a thread as ``assistant-cloud`` does."""
    client = Client()
    client.force_login(person)

    def post(path: str, body: Any) -> Any:
        answer = client.post(f"/cloud/v1/threads{path}", body, content_type="application/json")
        assert answer.status_code in (200, 201), answer.content
        return answer.json()

    thread = post("", {"last_message_at": "2026-01-01T00:00:00.000Z"})["thread_id"]
    parent = None
    for words in ("one", "two", "three"):
        content = {"role": "user", "parts": [{"type": "text", "text": words}]}
        with statements() as found:
            body = {"parent_id": parent, "format": "ai-sdk/v6", "content": content}
            parent = post(f"/{thread}/messages", body)["message_id"]
    return found


def chat_turn(person: Any) -> list[str]:
    """Ask in a chat that has messages, and read the whole answer."""
    return asyncio.run(_turns(person))


async def _turns(person: Any) -> list[str]:
    client = AsyncClient()
    await client.aforce_login(person)
    for number in range(3):
        message = {
            "id": f"message-{number}",
            "role": "user",
            "parts": [{"type": "text", "text": "Hello?"}],
        }
        body = json.dumps({"id": "turns", "messages": [message], "trigger": "submit-message"})
        with statements() as found:
            answer: Any = await client.post("/chat", body, content_type="application/json")
            assert answer.status_code == 200, answer.content
            text = b"".join([piece async for piece in answer.streaming_content])
            # The agent's last writes follow the end of its answer.
            await asyncio.sleep(0.5)
        assert b"I hear you." in text, text
    return found
