"""Reading rows piece by piece, so that no conversation and no list is in memory as a whole.

No server-side cursor is used: it would need a transaction as long as a download is slow, and there
is none behind a pooler in transaction mode. Each piece is a short statement by key, so what is
written meanwhile may be in a later piece: an export is no snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from uuid import UUID

from django.db.models import ExpressionWrapper, F, QuerySet, TextField
from django.db.models.functions import Length

from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.querysets import CONTENT_TEXT

_KEYS = 500
_MESSAGES = 100
_CHARACTERS = 2 * 1024 * 1024

Row = dict[str, Any]


def as_text(column: str) -> ExpressionWrapper[F]:
    """Selects a payload as its stored text, which is exact JSON already."""
    return ExpressionWrapper(F(column), output_field=TextField())


def each_session(sessions: Iterable[Session]) -> Iterator[UUID]:
    """Walks through sessions."""
    if not isinstance(sessions, QuerySet):
        yield from (session.pk for session in sessions)
    elif sessions.query.is_sliced or sessions.query.combinator:
        yield from sessions.values_list("pk", flat=True)
    else:
        yield from _keys(sessions)


def each_message(
    messages: QuerySet[SessionMessage], position: str, columns: Sequence[str], **texts: Any
) -> Iterator[Row]:
    """Walks through messages, a few at a time; a large one by itself."""
    ordered = messages.order_by(position)
    heads = ordered.annotate(size=Length(CONTENT_TEXT)).values_list(position, "pk", "size")
    found = list(heads[:_MESSAGES])
    while found:
        for keys in _small_enough(found):
            # Deleted meanwhile: then it is not there.
            yield from ordered.filter(pk__in=keys).values(*columns, **texts)
        found = list(heads.filter(**{f"{position}__gt": found[-1][0]})[:_MESSAGES])


def _keys(sessions: QuerySet[Session]) -> Iterator[UUID]:
    ordered = sessions.order_by("pk").values_list("pk", flat=True)
    found = list(ordered[:_KEYS])
    while found:
        yield from found
        found = list(ordered.filter(pk__gt=found[-1])[:_KEYS])


def _small_enough(heads: Iterable[tuple[Any, UUID, int | None]]) -> Iterator[list[UUID]]:
    keys: list[UUID] = []
    room = _CHARACTERS
    for _position, key, size in heads:
        if keys and (size or 0) > room:
            yield keys
            keys, room = [], _CHARACTERS
        keys.append(key)
        room -= size or 0
    yield keys
