"""What a server's agents said in a session, as messages that the client can go on from."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.rest.ai_sdk.transcript import UIMessage, page_of
from django_agent_sessions.transcripts import ASSISTANT_UI

FORMAT = "ai-sdk/v6"
"""The format in which it is given; in any other there is nothing."""

_ROWS = 200


def server_message(session: Session, name: str, using: str) -> UUID | None:
    """Finds a message that was not stored by the client."""
    try:
        key = UUID(name)
    except ValueError:
        return None
    rows = SessionMessage.objects.using(using).filter(session=session, pk=key)
    return key if rows.exclude(agent__dialect=ASSISTANT_UI).exists() else None


def server_page(
    session: Session, *, limit: int, before: UUID | None = None, last: UUID | None = None
) -> list[dict[str, Any]]:
    """Reads a page of what was said before the client stored anything."""
    found: list[UIMessage] = []
    # One more than asked for: it is the parent of the oldest. A client takes a page that is shorter
    # than it asked for as the last one, and a message without a parent as the first.
    while len(found) <= limit:
        read = page_of(session, before=before, limit=_ROWS)
        earlier = read.messages
        if last is not None:
            earlier = [one for one in earlier if UUID(one["id"]) <= last]
        found, before = [*earlier, *found], read.before
        if before is None:
            break
    parents = [None, *(one["id"] for one in found)]
    shown = [_wire(one, parent) for one, parent in zip(found, parents, strict=False)]
    return shown[::-1][:limit]


def _wire(message: UIMessage, parent: str | None) -> dict[str, Any]:
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
