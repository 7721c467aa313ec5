"""Keyset pagination over rows, so that conversations need not fit in memory.

Server-side cursors would require a transaction for the whole download, and poolers in transaction
mode do not support them. An export is therefore not a snapshot: later pages contain concurrent
changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.db.models.functions import Length

from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.models.stored_text import PAYLOAD_TEXT

_KEYS = 500
_MESSAGES = 100
_CHARACTERS = 2 * 1024 * 1024

RowDict = dict[str, Any]


def each_session(sessions: Iterable[Session]) -> Iterator[UUID]:
    """Yield the keys of sessions."""
    if not isinstance(sessions, QuerySet):
        yield from (session.pk for session in sessions)
    elif sessions.query.is_sliced or sessions.query.combinator:
        yield from sessions.values_list("pk", flat=True)
    else:
        yield from _keys(sessions)


def each_message(
    messages: QuerySet[SessionMessage],
    position: str,
    columns: Sequence[str],
    feedback: Callable[[Sequence[UUID]], Mapping[UUID, str]] | None = None,
    **texts: Any,
) -> Iterator[RowDict]:
    """Yield messages, read in small batches; a large message separately.

    ``feedback`` reads what the key ``feedback`` of messages has, by their keys.
    """
    ordered = messages.order_by(position)
    heads = ordered.annotate(size=Length(PAYLOAD_TEXT)).values_list(position, "pk", "size")
    batch = list(heads[:_MESSAGES])
    while batch:
        for keys in _batches(batch):
            found = feedback(keys) if feedback else {}
            # Messages that were deleted meanwhile are missing.
            for row in ordered.filter(pk__in=keys).values(*columns, **texts):
                yield {**row, "feedback": found[row["id"]]} if row.get("id") in found else row
        batch = list(heads.filter(**{f"{position}__gt": batch[-1][0]})[:_MESSAGES])


def _keys(sessions: QuerySet[Session]) -> Iterator[UUID]:
    ordered = sessions.order_by("pk").values_list("pk", flat=True)
    batch = list(ordered[:_KEYS])
    while batch:
        yield from batch
        batch = list(ordered.filter(pk__gt=batch[-1])[:_KEYS])


def _batches(heads: Iterable[tuple[Any, UUID, int | None]]) -> Iterator[list[UUID]]:
    keys: list[UUID] = []
    remaining = _CHARACTERS
    for _position, key, size in heads:
        if keys and (size or 0) > remaining:
            yield keys
            keys, remaining = [], _CHARACTERS
        keys.append(key)
        remaining -= size or 0
    yield keys
