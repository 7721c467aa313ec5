"""The events of a batch as bytes of server-sent events."""

from __future__ import annotations

from typing import Any

from django_agent_sessions.content.dialects import displayable
from django_agent_sessions.events.cursor import Cursor
from django_agent_sessions.events.event_types import (
    EventBatch,
    FeedbackEvent,
    MessageEvent,
    RemovedEvent,
    ResetEvent,
)
from django_agent_sessions.models import Session

from .base import SafeJSONRenderer
from .serializers.fields import format_datetime
from .serializers.messages import MessageContext, represent_message


def render_batch(batch: EventBatch, cursor: Cursor, context: MessageContext) -> bytes:
    """Render the events after a cursor; empty if there are none."""
    pieces = []
    for event in batch.events:
        if isinstance(event, MessageEvent):
            message = represent_message(event.row, context)
            name, data = "message", {**message, "change": event.change.value}
        elif isinstance(event, RemovedEvent):
            agent = context.agents.get(event.agent, ("",))[0]
            name, data = "removed", {"agent": displayable(agent), "position": event.position}
        elif isinstance(event, ResetEvent):
            name, data = "reset", {"reason": event.reason.value}
        elif isinstance(event, FeedbackEvent):
            name, data = "feedback", {}
        else:
            name, data = "session", _session_data(batch.session)
        pieces.append(render_event(name, data, event.cursor))
    last = batch.events[-1].cursor if batch.events else cursor
    if batch.cursor != last:
        # An id without data triggers no event, and the client remembers it.
        pieces.append(f"id: {batch.cursor.encode()}\n\n".encode())
    return b"".join(pieces)


def render_event(name: str, data: Any, cursor: Cursor | None = None) -> bytes:
    """Render one event, with the cursor after it as its id."""
    head = f"event: {name}\n" if cursor is None else f"event: {name}\nid: {cursor.encode()}\n"
    return head.encode() + b"data: " + SafeJSONRenderer().render(data) + b"\n\n"


def _session_data(session: Session) -> dict[str, Any]:
    archived, expires = session.archived_at, session.expires_at
    return {
        "id": str(session.pk),
        "title": displayable(session.title),
        "archived_at": None if archived is None else format_datetime(archived),
        "expires_at": None if expires is None else format_datetime(expires),
        "legal_hold": session.legal_hold,
        "redactions": session.redactions,
    }
