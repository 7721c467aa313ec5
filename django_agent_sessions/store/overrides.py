"""Messages that a snapshot has in a form of its own, where the conversation has another."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import ExpressionWrapper, F, QuerySet, TextField
from django.utils import timezone

from django_agent_sessions.models import Snapshot

_PART = 50


class Spot(NamedTuple):
    """Where a message stands."""

    agent: UUID | None
    branch: int
    position: int


def snapshots_with_forms(using: str, session: UUID) -> QuerySet[Snapshot]:
    """Finds the snapshots of a session that have messages in a form of their own."""
    text = ExpressionWrapper(F("messages"), output_field=TextField())
    rows = Snapshot.objects.using(using).filter(session=session).annotate(references_text=text)
    # Ranges of positions are lists of numbers.
    return rows.filter(references_text__contains="{").order_by("pk").defer("document")


def in_parts(rows: QuerySet[Snapshot]) -> Iterator[list[Snapshot]]:
    """Reads snapshots in parts: there may be thousands, and a pooler has no cursors."""
    part = list(rows[:_PART])
    while part:
        yield part
        part = list(rows.filter(pk__gt=part[-1].pk)[:_PART])


def spot_of(row: Snapshot, item: Any) -> Spot | None:
    """Tells of which message of the conversation an item of a snapshot is another form."""
    if not isinstance(item, dict) or not isinstance(item.get("position"), int):
        return None
    return Spot(row.agent_id, row.branch, item["position"])


def plain(spot: Spot) -> list[int]:
    """Writes a reference to a message itself."""
    return [spot.position, spot.position + 1]


def drop_forms(using: str, session: UUID, spots: Collection[Spot]) -> int:
    """Lets snapshots refer to messages of which they have another form; within a transaction."""
    wanted = set(spots)
    changed = 0
    for part in in_parts(snapshots_with_forms(using, session)):
        for row in part:
            if not isinstance(row.messages, list):
                continue
            messages = [
                plain(spot) if (spot := spot_of(row, item)) in wanted and spot else item
                for item in row.messages
            ]
            if messages != row.messages:
                rows = Snapshot.objects.using(using).filter(pk=row.pk)
                changed += rows.update(messages=messages, updated_at=timezone.now())
    return changed
