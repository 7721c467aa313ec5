"""The messages of server-side agents in a thread, as messages that the client can continue from."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django_agent_sessions.content import dialects
from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.rest.chat.ai_sdk.ui_messages import UIMessage, page_of

FORMAT = "ai-sdk/v6"
"""The format of these messages; requests for any other format get none."""

_ROWS = 200


def find_server_message(session: Session, name: str, using: str) -> UUID | None:
    """Return the key of a message that the client did not write, or ``None``."""
    try:
        key = UUID(name)
    except ValueError:
        return None
    rows = SessionMessage.objects.using(using).filter(session=session, pk=key)
    return key if rows.exclude(agent__dialect__in=dialects.client_written()).exists() else None


def server_page(
    session: Session, *, limit: int, before: UUID | None = None, last: UUID | None = None
) -> list[dict[str, Any]]:
    """Return up to ``limit`` of the messages before the client's first one, newest first.

    ``before`` is the key of the message after the page, ``last`` of the last message to include.
    """
    messages: list[UIMessage] = []
    # One more than requested, which is the parent of the oldest: the client treats a short page as
    # the last one, and a message without a parent as the first.
    while len(messages) <= limit:
        page = page_of(session, before=before, limit=_ROWS)
        earlier = page.messages
        if last is not None:
            earlier = [message for message in earlier if UUID(message["id"]) <= last]
        messages, before = [*earlier, *messages], page.before
        if before is None:
            break
    parents = [None, *(message["id"] for message in messages)]
    page_messages = [
        _client_message(message, parent) for message, parent in zip(messages, parents, strict=False)
    ]
    return page_messages[::-1][:limit]


def _client_message(message: UIMessage, parent: str | None) -> dict[str, Any]:
    created_at = message["metadata"]["createdAt"]
    return {
        "id": message["id"],
        "parent_id": parent,
        "height": 0,
        "created_at": created_at,
        "updated_at": created_at,
        "format": FORMAT,
        "content": {key: value for key, value in message.items() if key != "id"},
    }
