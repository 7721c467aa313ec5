"""Messages that a snapshot stores itself, because they differ from the conversation."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import QuerySet
from django.utils import timezone

from django_agent_sessions.content import codec
from django_agent_sessions.models import Snapshot
from django_agent_sessions.models.fields import sealed_columns
from django_agent_sessions.models.stored_text import StoredText

_PART = 50


class MessageRef(NamedTuple):
    """The position of a message."""

    agent: UUID | None
    branch: int
    position: int


def snapshots_with_variants(using: str, session: UUID) -> QuerySet[Snapshot]:
    """Return the session's snapshots that store messages themselves."""
    rows = Snapshot.objects.using(using).filter(session=session).order_by("pk").defer("document")
    if not codec.is_plain():
        return rows
    # References are lists of numbers; only a stored message contains a brace.
    return rows.annotate(references_text=StoredText("messages")).filter(
        references_text__contains="{"
    )


def snapshot_batches(rows: QuerySet[Snapshot]) -> Iterator[list[Snapshot]]:
    """Read snapshots by keyset pagination, because a connection pooler has no cursors."""
    part = list(rows[:_PART])
    while part:
        yield part
        part = list(rows.filter(pk__gt=part[-1].pk)[:_PART])


def message_ref_of(row: Snapshot, item: Any) -> MessageRef | None:
    """Return the position of the message that a snapshot's item is a variant of, or None."""
    if not isinstance(item, dict) or not isinstance(item.get("position"), int):
        return None
    return MessageRef(row.agent_id, row.branch, item["position"])


def position_range(spot: MessageRef) -> list[int]:
    """Return a snapshot's reference to a message of the conversation."""
    return [spot.position, spot.position + 1]


def replace_variants(using: str, session: UUID, spots: Collection[MessageRef]) -> int:
    """Replace snapshots' own variants of messages with references, in the caller's transaction."""
    wanted = set(spots)
    changed = 0
    for part in snapshot_batches(snapshots_with_variants(using, session)):
        for row in part:
            if not isinstance(row.messages, list):
                continue
            messages = [
                position_range(spot)
                if (spot := message_ref_of(row, item)) in wanted and spot
                else item
                for item in row.messages
            ]
            if messages != row.messages:
                rows = Snapshot.objects.using(using).filter(pk=row.pk)
                columns = sealed_columns(Snapshot, row.pk, {"messages": messages})
                changed += rows.update_locked(**columns, updated_at=timezone.now())
    return changed
