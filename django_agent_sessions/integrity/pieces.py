"""Reading rows in pieces: by key, few at a time, and never more bytes than fit.

No server-side cursor is used, because there is none behind a pooler in transaction mode.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from uuid import UUID

from django.db.models import BigIntegerField, F, QuerySet, Value
from django.db.models.expressions import Combinable
from django.db.models.functions import Coalesce

from django_agent_sessions.functions import OctetLength

PART = 500
"""Rows of one statement that reads keys."""

_ROWS = 200
_BYTES = 4 * 1024 * 1024

Row = dict[str, Any]


def size_of(columns: Iterable[str]) -> Combinable:
    """How many bytes some columns of a row hold, which the database tells without sending them."""
    size: Combinable = Value(0, output_field=BigIntegerField())
    for column in columns:
        size = size + Coalesce(OctetLength(F(column)), 0)
    return size


def parts(rows: QuerySet[Any], *columns: str) -> Iterator[list[tuple[Any, ...]]]:
    """Walks through small rows by their primary keys."""
    ordered = rows.order_by("pk").values_list("pk", *columns)
    found = list(ordered[:PART])
    while found:
        yield found
        if len(found) < PART:
            return
        found = list(ordered.filter(pk__gt=found[-1][0])[:PART])


def large(rows: QuerySet[Any], columns: Sequence[str], sized: Sequence[str]) -> Iterator[list[Row]]:
    """Walks through rows that may be large."""
    for found in parts(rows.annotate(bytes=size_of(sized)), "bytes"):
        for keys in small_enough(found):
            yield list(rows.filter(pk__in=keys).order_by().values("pk", *columns))


def small_enough(heads: Iterable[tuple[Any, ...]]) -> Iterator[list[UUID]]:
    """Divides keys so that what is read at once is bounded; a larger one is by itself."""
    keys: list[UUID] = []
    room = _BYTES
    for key, size, *_ in heads:
        if keys and (len(keys) == _ROWS or size > room):
            yield keys
            keys, room = [], _BYTES
        keys.append(key)
        room -= size
    if keys:
        yield keys
