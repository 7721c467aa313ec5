"""Read the content of a session, and the versions of its rows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import F, Model, QuerySet
from django.db.models.functions import Length

from django_agent_sessions.content.work_budget import check_work, is_work_limited
from django_agent_sessions.models import Session, SessionMessage, Snapshot, StoredObject, StoredPart
from django_agent_sessions.models.content_columns import (
    ContentColumns,
    content_columns_of,
    content_models,
)
from django_agent_sessions.models.fields import CorruptPayload

from ._object_bytes import read_bytes

_BATCH: dict[type[Model], int] = {SessionMessage: 200, Snapshot: 50}
_DEFAULT_BATCH = 100

_VERSIONS_PER_STATEMENT = 500
_BATCH_BYTES = 2 * 1024 * 1024
_PARSED = 2
"""A parsed message needs about so many times the memory of its text."""


@dataclass(frozen=True, slots=True, eq=False)
class Copy:
    """The content of one row: the value of each content column."""

    row: Model
    columns: ContentColumns
    values: dict[str, Any]

    @property
    def key(self) -> Any:
        return self.row.pk

    @property
    def version(self) -> Any:
        """A value that differs after the content was written."""
        if isinstance(self.row, Snapshot):
            # Purged variants leave its revision, which agents compare.
            return self.row.revision, self.row.updated_at
        if self.columns.revision:
            return self.row.revision  # type: ignore[attr-defined] # as declared
        return tuple(map(_exact, self.values.values()))


def walk(
    using: str,
    session: Session,
    *models: type[Model],
) -> Iterator[Copy]:
    """Read all content of a session, or that of some models."""
    for model in models or content_models():
        yield from walk_model(using, session, model, content_columns_of(model))


def walk_model(
    using: str,
    session: Session,
    model: type[Model],
    columns: ContentColumns,
    keys: Collection[UUID] | None = None,
) -> Iterator[Copy]:
    """Read a session's rows of a model, or those with these keys."""
    if model is Session:
        yield _copy(using, session, columns)
        return
    rows = _rows(using, session.pk, model, columns)
    for batch in _batches(rows, _BATCH.get(model, _DEFAULT_BATCH), keys):
        for row in batch:
            yield _copy(using, row, columns)


def content_versions(
    using: str,
    session: Session,
    models: Mapping[type[Model], ContentColumns],
    keys: Mapping[type[Model], Collection[UUID] | None],
) -> dict[type[Model], dict[Any, Any]]:
    """Return the versions of the models' rows, in a transaction that has locked the session.

    ``keys`` limits the rows of a model, or is None for all. Rows without a revision are locked,
    because they may be written without the session's lock.
    """
    return {
        model: _versions(using, session, model, columns, keys[model])
        for model, columns in models.items()
    }


def _versions(
    using: str,
    session: Session,
    model: type[Model],
    columns: ContentColumns,
    keys: Collection[UUID] | None,
) -> dict[Any, Any]:
    if model is Session:
        return {session.pk: _copy(using, session, columns).version}
    rows = _rows(using, session.pk, model, columns)
    if columns.revision:
        version = ("revision", "updated_at") if model is Snapshot else ("revision",)
        found: dict[Any, Any] = {}
        for part in [None] if keys is None else _batched(sorted(keys), _VERSIONS_PER_STATEMENT):
            named = rows if part is None else rows.filter(pk__in=part)
            for key, *values in named.order_by().values_list("pk", *version):
                found[key] = tuple(values) if model is Snapshot else values[0]
        return found
    batches = _batches(rows.select_for_update(), _DEFAULT_BATCH, keys)
    return {row.pk: _copy(using, row, columns).version for batch in batches for row in batch}


def _batched(keys: list[UUID], size: int) -> Iterator[list[UUID]]:
    for first in range(0, len(keys), size):
        yield keys[first : first + size]


def _rows(using: str, session: UUID, model: type[Model], columns: ContentColumns) -> QuerySet[Any]:
    rows: QuerySet[Any] = model._base_manager.using(using).filter(**{str(columns.session): session})
    return rows.annotate(dialect=F("agent__dialect")) if model is SessionMessage else rows


def _batches(
    rows: QuerySet[Any], size: int, keys: Collection[UUID] | None
) -> Iterator[list[Model]]:
    # Keyset pagination: a conversation may exceed the memory, and connection poolers in
    # transaction mode do not support cursors.
    if keys is not None:
        for part in _batched(sorted(keys), size):
            yield list(rows.filter(pk__in=part).order_by("pk"))
        return
    rows = rows.order_by("pk")
    if rows.model is SessionMessage and is_work_limited():
        yield from _small_batches(rows, size)
        return
    batch = list(rows[:size])
    while batch:
        yield batch
        batch = list(rows.filter(pk__gt=batch[-1].pk)[:size]) if len(batch) == size else []


def _small_batches(rows: QuerySet[Any], size: int) -> Iterator[list[Model]]:
    """Yield messages in batches that a limited memory can hold; their lengths are read first."""
    lengths = rows.values_list("pk", Length("message"))
    page = list(lengths[:size])
    while page:
        for _, group in itertools.groupby(page, key=_by_bytes(_BATCH_BYTES)):
            members = list(group)
            check_work(_PARSED * sum(length for _, length in members))
            yield list(rows.filter(pk__in=[key for key, _ in members]))
        page = list(lengths.filter(pk__gt=page[-1][0])[:size]) if len(page) == size else []


def _by_bytes(most: int) -> Callable[[tuple[Any, int]], int]:
    """Return a key that numbers groups of at most so many bytes."""
    number = total = 0

    def key(row: tuple[Any, int]) -> int:
        nonlocal number, total
        total += row[1]
        if total > most:
            number, total = number + 1, row[1]
        return number

    return key


def _copy(using: str, row: Model, columns: ContentColumns) -> Copy:
    if isinstance(row, StoredObject):
        check_work(row.size)
        data = read_bytes(StoredPart.objects.using(using).filter(stored=row))
        return Copy(row, columns, {"data": data or b""})
    return Copy(row, columns, {name: getattr(row, name) for name in columns.stored})


def _exact(value: Any) -> str:
    # Equal values may be different content: True and 1, or another order of keys.
    return f"corrupt {value.text}" if isinstance(value, CorruptPayload) else repr(value)
