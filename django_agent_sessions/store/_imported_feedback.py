"""Write the feedback of imported messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django_agent_sessions.content.dialects import displayable
from django_agent_sessions.content.masking.on_write import mask_on_write
from django_agent_sessions.models import MessageFeedback
from django_agent_sessions.values.ids import id_for_time

from ._feedback import MAX_COMMENT

_ROWS = 100


@dataclass(frozen=True, slots=True)
class ImportedFeedback:
    """Feedback as its source has it, with a user of this project."""

    id: UUID | None
    user: str
    source: str
    value: int
    comment: str
    created_at: datetime
    updated_at: datetime


def insert_feedback(
    using: str, session: UUID, messages: Iterable[tuple[UUID, Sequence[ImportedFeedback]]]
) -> None:
    """Insert the feedback of messages, by their keys; the caller has locked the session."""
    found = [(message, one) for message, listed in messages for one in listed]
    rows = MessageFeedback.objects.using(using)
    for start in range(0, len(found), _ROWS):
        part = found[start : start + _ROWS]
        keys = [one.id for _, one in part if one.id is not None]
        taken = set(rows.filter(pk__in=keys).values_list("pk", flat=True))
        new: list[MessageFeedback] = []
        for message, one in part:
            key = one.id
            if key is None or key in taken:
                key = id_for_time(one.created_at, len(new))
            taken.add(key)
            new.append(_row(session, message, key, one))
        rows.bulk_create(new)


def _row(session: UUID, message: UUID, key: UUID, one: ImportedFeedback) -> MessageFeedback:
    comment = str(mask_on_write(displayable(one.comment), free=True))[:MAX_COMMENT]
    return MessageFeedback(
        id=key,
        session_id=session,
        message_id=message,
        user=one.user,
        source=one.source,
        value=one.value,
        comment=comment,
        created_at=one.created_at,
        updated_at=one.updated_at,
    )
