"""Reading rows in batches: by key, bounded in number and bytes.

Server-side cursors do not work behind a connection pooler in transaction mode.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from uuid import UUID

from django.db.models import BigIntegerField, F, QuerySet, Value
from django.db.models.expressions import Combinable
from django.db.models.functions import Coalesce

from django_agent_sessions.models.functions import OctetLength

PART = 500
"""Rows of a statement that reads keys."""

_MAX_ROWS = PART
_MAX_BYTES = 4 * 1024 * 1024

Row = dict[str, Any]


def size_of(columns: Iterable[str]) -> Combinable:
    """Return an expression for the bytes of some columns, computed by the database."""
    size: Combinable = Value(0, output_field=BigIntegerField())
    for column in columns:
        size = size + Coalesce(OctetLength(F(column)), 0)
    return size


def key_batches(rows: QuerySet[Any], *columns: str) -> Iterator[list[tuple[Any, ...]]]:
    """Yield small rows in batches by primary key."""
    ordered = rows.order_by("pk").values_list("pk", *columns)
    rows_read = list(ordered[:PART])
    while rows_read:
        yield rows_read
        if len(rows_read) < PART:
            return
        rows_read = list(ordered.filter(pk__gt=rows_read[-1][0])[:PART])


def row_batches(
    rows: QuerySet[Any], columns: Sequence[str], sized: Sequence[str]
) -> Iterator[list[Row]]:
    """Yield rows that may be large in batches."""
    for sizes in key_batches(rows.annotate(bytes=size_of(sized)), "bytes"):
        for keys in split_by_size(sizes):
            yield list(rows.filter(pk__in=keys).order_by().values("pk", *columns))


def split_by_size(heads: Iterable[tuple[Any, ...]]) -> Iterator[list[UUID]]:
    """Divide keys into batches of bounded bytes; a larger row is a batch of its own."""
    keys: list[UUID] = []
    room = _MAX_BYTES
    for key, size, *_ in heads:
        if keys and (len(keys) == _MAX_ROWS or size > room):
            yield keys
            keys, room = [], _MAX_BYTES
        keys.append(key)
        room -= size
    if keys:
        yield keys
