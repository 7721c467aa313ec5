"""Delete sessions in batches, so that no transaction is long.

Small sessions are deleted several per transaction, each completely. A session with very many
messages becomes a tombstone with the first batch of them: it loses its session id and owner, so
that it cannot be found, and the deletion is recorded. Its messages are deleted in batches, newest
first, and its row with the last of them. After an interruption :func:`delete_tombstones`, which
``manage.py agent_sessions_gc`` calls, deletes the rest.

In a caller's transaction everything belongs to that transaction, and nothing is done in batches.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeAlias
from uuid import UUID

from django.db import connections, models, transaction
from django.db.models import Count, F
from django.dispatch import Signal

from django_agent_sessions.models import removal
from django_agent_sessions.models.removed_messages import last_of, remember_removed

MAX_SESSIONS = 50
"""Maximum number of sessions that one transaction deletes."""

MAX_MESSAGES = 10_000
"""Maximum number of messages that one transaction deletes."""

TOMBSTONE_NAMESPACE = "\x7fdeleted"
"""Namespace of tombstones. No store can have it."""

ENCRYPTED = ("title", "metadata")
"""Columns of sessions that are read only where they are needed: their key may be destroyed."""

_BESIDE_MESSAGES = ("feedback", "notes", "labels", "review", "participants", "share_links")

session_tombstoned = Signal()
"""Sent in each transaction that deletes only some messages of a session, which is locked;
arguments as of ``pre_delete``. The first one makes it a tombstone."""


DeletionResult: TypeAlias = tuple[int, dict[str, int]]
"""Result of a deletion in Django: the number of rows, and the numbers by model."""


class LockedSessions(models.QuerySet[Any]):
    """Sessions that the caller has locked, found without a legal hold, and recorded as deleted.

    The receivers of ``pre_delete`` would do that for each of them.
    """

    def delete(self) -> DeletionResult:
        return models.QuerySet.delete(self.defer(*ENCRYPTED))


def can_commit_batches(using: str) -> bool:
    """Return whether a deletion may be committed in batches."""
    connection = connections[using]
    return connection.get_autocommit() and not connection.in_atomic_block


def delete_sessions(sessions: models.QuerySet[Any]) -> DeletionResult:
    """Delete sessions in batches."""
    count: Counter[str] = Counter()
    rows = sessions.model._base_manager.using(sessions.db)
    for keys in _keys(sessions):
        for group, is_large in groups(sessions, keys):
            if is_large:
                count += delete_session(rows.filter(pk=group[0]))
            else:
                group_rows = rows.filter(pk__in=group).defer(*ENCRYPTED)
                count.update(models.QuerySet.delete(group_rows)[1])
    return count.total(), dict(count)


def delete_session(
    row: models.QuerySet[Any],
    *,
    atomic: Callable[[str], AbstractContextManager[Any]] = transaction.atomic,
) -> Counter[str]:
    """Delete one session, in batches if it is large and no transaction is open."""
    count: Counter[str] = Counter()
    in_batches = can_commit_batches(row.db)
    messages = None
    while True:
        # In a caller's transaction a savepoint would make SQLite write every page twice.
        with atomic(row.db) if in_batches else nullcontext():
            # Locked and read again, because a user may have put it under legal hold.
            session = row.select_for_update().order_by().defer(*ENCRYPTED).first()
            if session is None:
                return count
            removal.refuse_removal(session)
            if messages is None:
                messages = _messages(row.model, row.db).filter(session=session.pk)
            before_batch = _key_before_batch(messages) if in_batches else None
            if before_batch is None:
                count.update(models.Model.delete(session, using=row.db)[1])
                return count
            _make_tombstone(row, session)
            batch = messages.filter(pk__gt=before_batch)
            count.update(models.QuerySet.delete(batch)[1])
            # PostgreSQL would read the deleted ones again.
            messages = messages.filter(pk__lte=before_batch)


def delete_message_rows(rows: models.QuerySet[Any]) -> DeletionResult:
    """Delete messages of sessions that the caller has locked, with the feedback on them."""
    feedback: Any = rows.model._meta.get_field("feedback").related_model
    ratings = feedback._base_manager.using(rows.db)
    ratings.filter(message__in=rows.order_by().values("pk")).delete()
    agents: Any = rows.model._meta.get_field("agent").related_model
    removed = last_of(rows)
    deleted = models.QuerySet.delete(rows)
    remember_removed(agents, rows.db, removed)
    return deleted


def delete_after_commit(session: Any, using: str) -> None:
    """Delete a session, which the open transaction has locked; a large one after the commit."""
    row = type(session)._base_manager.using(using).filter(pk=session.pk)
    if _key_before_batch(_messages(row.model, using).filter(session=session.pk)) is None:
        session.delete(using=using)
    else:
        _make_tombstone(row, session)
        transaction.on_commit(functools.partial(delete_session, row), using)


def tombstones(sessions: models.QuerySet[Any]) -> models.QuerySet[Any]:
    """Return what interrupted deletions left, and :func:`delete_tombstones` deletes."""
    rows: Any = sessions.model._default_manager.using(sessions.db)
    left: models.QuerySet[Any] = rows.filter(namespace=TOMBSTONE_NAMESPACE).not_held()
    return left


def delete_tombstones(sessions: models.QuerySet[Any]) -> int:
    """Delete what interrupted deletions left; return the number of sessions."""
    rows = sessions.model._base_manager.using(sessions.db)
    keys = [*tombstones(sessions).order_by().values_list("pk", flat=True)]
    for key in keys:
        delete_session(rows.filter(pk=key))
    return len(keys)


def _keys(sessions: models.QuerySet[Any]) -> Iterator[list[UUID]]:
    ordered = sessions.order_by("pk").values_list("pk", flat=True)
    keys = [*ordered[:MAX_SESSIONS]]
    while keys:
        yield keys
        keys = [*ordered.filter(pk__gt=keys[-1])[:MAX_SESSIONS]]


def groups(sessions: models.QuerySet[Any], keys: list[UUID]) -> Iterator[tuple[list[UUID], bool]]:
    """Split sessions into groups for one transaction each, with whether it is one large session."""
    messages = _messages(sessions.model, sessions.db).filter(session__in=keys).order_by()
    counted_messages = messages.values("session").annotate(count=Count("pk"))
    counts = dict(counted_messages.values_list("session", "count"))
    group: list[UUID] = []
    total = 0
    for key in keys:
        count = counts.get(key, 0)
        if group and total + count > MAX_MESSAGES:
            yield group, False
            group, total = [], 0
        if count > MAX_MESSAGES:
            yield [key], True
        else:
            group.append(key)
            total += count
    if group:
        yield group, False


def _key_before_batch(messages: models.QuerySet[Any]) -> UUID | None:
    """Return the newest message that is too many for one transaction, or None."""
    newest = messages.order_by("-pk").values_list("pk", flat=True)
    return next(iter(newest[MAX_MESSAGES : MAX_MESSAGES + 1]), None)


def _make_tombstone(row: models.QuerySet[Any], session: Any) -> None:
    """Take a locked session's id and owner, so that it cannot be found, and record its deletion."""
    session_tombstoned.send(sender=type(session), instance=session, using=row.db)
    for name in _BESIDE_MESSAGES:
        related: Any = row.model._meta.get_field(name).related_model
        related._base_manager.using(row.db).filter(session=session.pk).delete()
    if session.namespace != TOMBSTONE_NAMESPACE:
        row.update(
            namespace=TOMBSTONE_NAMESPACE,
            scope="",
            session_id=str(session.pk),
            owner=None,
            external_id=None,
            title="",
            metadata={},
            # Concurrent writers have to reload, and find no session.
            redaction_epoch=F("redaction_epoch") + 1,
            change=F("change") + 1,
        )


def _messages(model: type[models.Model], using: str) -> models.QuerySet[Any]:
    related: Any = model._meta.get_field("messages").related_model
    rows: models.QuerySet[Any] = related._base_manager.using(using)
    return rows
