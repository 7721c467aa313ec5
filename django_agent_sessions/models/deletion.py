"""Delete sessions in batches, so that no transaction is long.

Small sessions are deleted several per transaction, each completely. A session with very many
messages first becomes a tombstone: it loses its session id and owner, so that it cannot be found,
and the deletion is recorded. Its messages are then deleted in batches, newest first, and its row
last. After an interruption :func:`delete_tombstones`, which ``manage.py agent_sessions_gc`` calls,
deletes the rest.

In a caller's transaction everything belongs to that transaction, and nothing is done in batches.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator
from typing import Any, TypeAlias
from uuid import UUID

from django.db import connections, models, transaction
from django.db.models import Count, F
from django.dispatch import Signal

MAX_SESSIONS = 50
"""Maximum number of sessions that one transaction deletes."""

MAX_MESSAGES = 5_000
"""Maximum messages that one transaction deletes; a session with more becomes a tombstone first."""

TOMBSTONE_NAMESPACE = "\x7fdeleted"
"""Namespace of tombstones. No store can have it."""

session_tombstoned = Signal()
"""Sent in the transaction that makes a session a tombstone; arguments as of ``pre_delete``."""

DeletionResult: TypeAlias = tuple[int, dict[str, int]]
"""Result of a deletion in Django: the number of rows, and the numbers by model."""


def can_commit_batches(using: str) -> bool:
    """Return whether a deletion may be committed in batches."""
    connection = connections[using]
    return connection.get_autocommit() and not connection.in_atomic_block


def delete_sessions(sessions: models.QuerySet[Any]) -> DeletionResult:
    """Delete sessions in batches."""
    count: Counter[str] = Counter()
    for keys in _keys(sessions):
        rows = sessions.model._base_manager.using(sessions.db)
        for group, is_large in _groups(sessions, keys):
            if is_large:
                count += _empty(rows, group[0])
            count.update(models.QuerySet.delete(rows.filter(pk__in=group))[1])
    return count.total(), dict(count)


def key_if_large(session: models.QuerySet[Any]) -> UUID | None:
    """Return the session's key if it has too many messages for one transaction, otherwise None."""
    messages = _messages(session.model, session.db).filter(session__in=session.values("pk"))
    keys = messages.order_by().values_list("session", flat=True)
    return next(iter(keys[MAX_MESSAGES : MAX_MESSAGES + 1]), None)


def delete_messages(session: models.QuerySet[Any], key: UUID) -> Counter[str]:
    """Make a session a tombstone and delete its messages; the caller then deletes the row."""
    return _empty(session.model._base_manager.using(session.db), key)


def delete_after_commit(session: models.Model, using: str) -> None:
    """Delete a session in the open transaction; a large one mostly after the commit."""
    rows = type(session)._base_manager.using(using)
    if key_if_large(rows.filter(pk=session.pk)) is None:
        session.delete(using=using)
    elif _make_tombstone(rows, session.pk):
        finish_deletion = functools.partial(_finish, rows, session.pk)
        transaction.on_commit(finish_deletion, using)


def delete_tombstones(sessions: models.QuerySet[Any]) -> int:
    """Delete what interrupted deletions left; return the number of sessions."""
    rows = sessions.model._base_manager.using(sessions.db)
    keys = [
        *rows.filter(namespace=TOMBSTONE_NAMESPACE, legal_hold=False).values_list("pk", flat=True)
    ]
    for key in keys:
        _finish(rows, key)
    return len(keys)


def _finish(rows: models.QuerySet[Any], key: UUID) -> None:
    _empty(rows, key)
    models.QuerySet.delete(rows.filter(pk=key))


def _keys(sessions: models.QuerySet[Any]) -> Iterator[list[UUID]]:
    ordered = sessions.order_by("pk").values_list("pk", flat=True)
    keys = [*ordered[:MAX_SESSIONS]]
    while keys:
        yield keys
        keys = [*ordered.filter(pk__gt=keys[-1])[:MAX_SESSIONS]]


def _groups(sessions: models.QuerySet[Any], keys: list[UUID]) -> Iterator[tuple[list[UUID], bool]]:
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


def _empty(rows: models.QuerySet[Any], key: UUID) -> Counter[str]:
    count: Counter[str] = Counter()
    if not _make_tombstone(rows, key):
        return count
    messages = _messages(rows.model, rows.db).filter(session=key)
    more = True
    while more:
        with transaction.atomic(rows.db):
            # Locked and read again, because a user may have put it under legal hold.
            session = rows.select_for_update().filter(pk=key).first()
            if session is None:
                break
            _announce(session, rows.db)
            newest = messages.order_by("-pk").values_list("pk", flat=True)
            oldest_in_batch = next(iter(newest[MAX_MESSAGES - 1 : MAX_MESSAGES]), None)
            more = oldest_in_batch is not None
            batch = messages.filter(pk__gte=oldest_in_batch) if more else messages
            count.update(models.QuerySet.delete(batch.order_by())[1])
    return count


def _make_tombstone(rows: models.QuerySet[Any], key: UUID) -> bool:
    with transaction.atomic(rows.db):
        session = rows.select_for_update().filter(pk=key).first()
        if session is None:
            return False
        _announce(session, rows.db)
        if session.namespace != TOMBSTONE_NAMESPACE:
            rows.filter(pk=key).update(
                namespace=TOMBSTONE_NAMESPACE,
                scope="",
                session_id=str(key),
                owner=None,
                external_id=None,
                title="",
                metadata={},
                # Concurrent writers have to reload, and find no session.
                redaction_epoch=F("redaction_epoch") + 1,
                change=F("change") + 1,
            )
        return True


def _announce(session: models.Model, using: str) -> None:
    session_tombstoned.send(sender=type(session), instance=session, using=using)


def _messages(model: type[models.Model], using: str) -> models.QuerySet[Any]:
    related: Any = model._meta.get_field("messages").related_model
    rows: models.QuerySet[Any] = related._base_manager.using(using)
    return rows
