"""The text of stored messages, also with encryption."""

from __future__ import annotations

from collections.abc import Iterable

from django_agent_sessions.content import codec, dialects
from django_agent_sessions.models import SessionMessage


def with_text(text: str, rows: Iterable[SessionMessage] | None = None) -> list[SessionMessage]:
    """Return the messages whose text contains a text."""
    rows = SessionMessage.objects.order_by("id") if rows is None else rows
    return [row for row in rows if text in text_of(row)]


def text_of(row: SessionMessage) -> str:
    """Return the column ``text``; that of the visible payload, where encryption keeps it empty."""
    if not codec.hides_text():
        return row.text
    assert row.text == ""
    payload = row.message
    return dialects.get(row.agent.dialect).summary(payload).text
