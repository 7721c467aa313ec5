"""Deleting sessions in parts, so that no transaction is long, however much there is to delete.

Many sessions go some at a time, each whole or not at all. One with very many messages is set aside
first: it loses its name and owner, so that nobody finds it any more, and is recorded as deleted.
Its messages follow in parts, the newest first, and its row at last. What an interruption leaves of
it is nobody's; :func:`finish` deletes the rest, as ``manage.py agent_sessions_gc`` does.

Within a caller's transaction all of it belongs to that transaction, and nothing is done in parts.
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

SESSIONS = 50
"""How many sessions one transaction deletes at most."""

MESSAGES = 5_000
"""How many messages one transaction deletes; a session with more is set aside first."""

DOOMED = "\x7fdeleted"
"""The namespace of sessions that were set aside. No store can be bound to it."""

set_aside = Signal()
"""Sent, with what ``pre_delete`` has, in the transaction that sets a session aside."""

Deleted: TypeAlias = tuple[int, dict[str, int]]
"""What a deletion answers in Django: how many rows, and how many of each model."""


def are_possible(using: str) -> bool:
    """Tells whether what is done here may be committed in parts."""
    connection = connections[using]
    return connection.get_autocommit() and not connection.in_atomic_block


def delete(sessions: models.QuerySet[Any]) -> Deleted:
    """Deletes sessions, some at a time."""
    count: Counter[str] = Counter()
    for keys in _keys(sessions):
        rows = sessions.model._base_manager.using(sessions.db)
        for group, is_large in _groups(sessions, keys):
            if is_large:
                count += _empty(rows, group[0])
            count.update(models.QuerySet.delete(rows.filter(pk__in=group))[1])
    return count.total(), dict(count)


def large(session: models.QuerySet[Any]) -> UUID | None:
    """Finds out whether one transaction would be long for all that a session has."""
    messages = _messages(session.model, session.db).filter(session__in=session.values("pk"))
    keys = messages.order_by().values_list("session", flat=True)
    return next(iter(keys[MESSAGES : MESSAGES + 1]), None)


def empty(session: models.QuerySet[Any], key: UUID) -> Counter[str]:
    """Sets a session aside and deletes its messages; the caller deletes it next."""
    return _empty(session.model._base_manager.using(session.db), key)


def delete_after_commit(session: models.Model, using: str) -> None:
    """Deletes a session in the open transaction, but a large one for the most part after it."""
    rows = type(session)._base_manager.using(using)
    if large(rows.filter(pk=session.pk)) is None:
        session.delete(using=using)
    elif _set_aside(rows, session.pk):
        finish_it = functools.partial(_finish, rows, session.pk)
        transaction.on_commit(finish_it, using)


def finish(sessions: models.QuerySet[Any]) -> int:
    """Deletes what interrupted deletions have left."""
    rows = sessions.model._base_manager.using(sessions.db)
    keys = [*rows.filter(namespace=DOOMED, legal_hold=False).values_list("pk", flat=True)]
    for key in keys:
        _finish(rows, key)
    return len(keys)


def _finish(rows: models.QuerySet[Any], key: UUID) -> None:
    _empty(rows, key)
    models.QuerySet.delete(rows.filter(pk=key))


def _keys(sessions: models.QuerySet[Any]) -> Iterator[list[UUID]]:
    ordered = sessions.order_by("pk").values_list("pk", flat=True)
    keys = [*ordered[:SESSIONS]]
    while keys:
        yield keys
        keys = [*ordered.filter(pk__gt=keys[-1])[:SESSIONS]]


def _groups(sessions: models.QuerySet[Any], keys: list[UUID]) -> Iterator[tuple[list[UUID], bool]]:
    """Parts sessions into what one transaction deletes, and tells whether it is a large one."""
    messages = _messages(sessions.model, sessions.db).filter(session__in=keys).order_by()
    counted = messages.values("session").annotate(count=Count("pk"))
    counts = dict(counted.values_list("session", "count"))
    group: list[UUID] = []
    total = 0
    for key in keys:
        count = counts.get(key, 0)
        if group and total + count > MESSAGES:
            yield group, False
            group, total = [], 0
        if count > MESSAGES:
            yield [key], True
        else:
            group.append(key)
            total += count
    if group:
        yield group, False


def _empty(rows: models.QuerySet[Any], key: UUID) -> Counter[str]:
    count: Counter[str] = Counter()
    if not _set_aside(rows, key):
        return count
    messages = _messages(rows.model, rows.db).filter(session=key)
    more = True
    while more:
        with transaction.atomic(rows.db):
            # Locked, and looked at again: somebody may have put it under hold.
            session = rows.select_for_update().filter(pk=key).first()
            if session is None:
                break
            _announce(session, rows.db)
            newest = messages.order_by("-pk").values_list("pk", flat=True)
            edge = next(iter(newest[MESSAGES - 1 : MESSAGES]), None)
            more = edge is not None
            part = messages.filter(pk__gte=edge) if more else messages
            count.update(models.QuerySet.delete(part.order_by())[1])
    return count


def _set_aside(rows: models.QuerySet[Any], key: UUID) -> bool:
    with transaction.atomic(rows.db):
        session = rows.select_for_update().filter(pk=key).first()
        if session is None:
            return False
        _announce(session, rows.db)
        if session.namespace != DOOMED:
            rows.filter(pk=key).update(
                namespace=DOOMED,
                session_id=str(key),
                owner=None,
                external_id=None,
                title="",
                metadata={},
                # Whoever still writes reads again, and finds no session.
                redaction_epoch=F("redaction_epoch") + 1,
            )
        return True


def _announce(session: models.Model, using: str) -> None:
    set_aside.send(sender=type(session), instance=session, using=using)


def _messages(model: type[models.Model], using: str) -> models.QuerySet[Any]:
    related: Any = model._meta.get_field("messages").related_model
    found: models.QuerySet[Any] = related._base_manager.using(using)
    return found
