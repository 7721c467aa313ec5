"""Find encrypted summaries of messages that are redacted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from django_agent_sessions.content import dialects, masking
from django_agent_sessions.models import SessionMessage
from django_agent_sessions.models.fields import decode_payload
from django_agent_sessions.models.stored_text import PAYLOAD_TEXT

from ._rows import MessageRow

_CHUNK = 200


class _Place(NamedTuple):
    key: UUID
    agent: UUID
    branch: int
    position: int


def redacted_summaries(
    using: str, session: UUID | None, keys: Sequence[UUID]
) -> list[tuple[UUID, int, MessageRow]]:
    """Return redacted versions of the encrypted summaries that may contain some messages.

    A model's provider encrypts the summary of a compaction, so that no text is found in it. It may
    have been made from any earlier message of the agent, also by way of an earlier summary, except
    from those that still precede it on its branch.
    """
    redacted = set(keys)
    summaries = {
        place: (revision, dialect, payload)
        for place, revision, dialect, payload in _summaries(using, session)
        if place.key not in redacted
    }
    if not summaries:
        return []
    messages = list(_originals(using, keys, redacted))
    return [
        (
            summary.key,
            revision,
            MessageRow(dialect, masking.redact_message(dialect, payload)),
        )
        for summary, (revision, dialect, payload) in summaries.items()
        if any(_may_contain(summary, message) for message in messages)
    ]


def _may_contain(summary: _Place, message: _Place) -> bool:
    precedes = message.branch == summary.branch and message.position < summary.position
    return message.agent == summary.agent and message.key < summary.key and not precedes


def _summaries(using: str, session: UUID | None) -> Iterator[tuple[_Place, int, str, Any]]:
    names = [each.name for each in dialects.all_dialects() if each.has_encrypted_summaries]
    rows = SessionMessage.objects.using(using).filter(
        session=session, agent__dialect__in=names, text="", redacted_at__isnull=True
    )
    columns = ("pk", "agent_id", "branch", "message_id", "revision", "agent__dialect")
    for *place, revision, dialect, text in rows.order_by().values_list(*columns, PAYLOAD_TEXT):
        payload = decode_payload(text)
        if dialects.get(dialect).is_encrypted_summary(payload):
            yield _Place(*place), revision, dialect, payload


def _originals(using: str, keys: Sequence[UUID], redacted: set[UUID]) -> Iterator[_Place]:
    """Return where messages are; of copies on other branches, only the first one."""
    for start in range(0, len(keys), _CHUNK):
        rows = SessionMessage.objects.using(using).filter(pk__in=keys[start : start + _CHUNK])
        columns = ("source", "pk", "agent_id", "branch", "message_id")
        for source, *place in rows.order_by().values_list(*columns):
            if source not in redacted:
                yield _Place(*place)
