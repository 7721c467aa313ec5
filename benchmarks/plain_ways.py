"""The app's hand-made mechanisms, each with Django's or the standard library's plain way.

Only for measuring: a plain way does the same work for one writer at a time, without what the
mechanism promises beside speed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any
from unittest import mock

from django.db import connections, transaction
from django.db.models import Max, TextField, Value
from django.utils import timezone

from django_agent_sessions.content import exact_json
from django_agent_sessions.db import bridge, workers
from django_agent_sessions.models import Session, SessionAgent, SessionMessage
from django_agent_sessions.models.stored_text import PAYLOAD_TEXT
from django_agent_sessions.sql import appends, lookup, message_reads, message_writes
from django_agent_sessions.store import _append_groups, _redaction
from django_agent_sessions.store._counters import move_counters
from django_agent_sessions.values.owners import EVERYBODY, NOBODY

Line = tuple[str, str]
"""An operation of the measurement, and the store that does it."""

_STORE, _OPENAI = "ours_store.Bare", "ours_openai.OpenAI"
BOTH = ("postgresql", "sqlite")


@dataclass(frozen=True)
class Mechanism:
    """What is hand-made, where, and its plain way."""

    name: str
    file: str
    plain: str
    lines: Sequence[Line]
    replace: Callable[[], AbstractContextManager[Any]]
    databases: Sequence[str] = BOTH


def _patched(*patches: tuple[Any, str, Any]) -> Callable[[], AbstractContextManager[Any]]:
    def replace() -> AbstractContextManager[Any]:
        stack = ExitStack()
        for target, name, replacement in patches:
            stack.enter_context(mock.patch.object(target, name, replacement))
        return stack

    return replace


class _NoCache(dict[Any, Any]):
    """Keeps nothing but what it is asked for at once."""

    def __contains__(self, key: object) -> bool:
        return False

    def get(self, key: Any, default: Any = None) -> Any:
        return None


def _columns(names: Sequence[str], row: Sequence[Any]) -> dict[str, Any]:
    """Return a row's values, with times that need no parsing and a text that is not encoded."""
    values = dict(zip(names, row, strict=True))
    now = timezone.now()
    return {
        **values,
        "message": Value(values["message"], TextField()),
        "created_at": now,
        "updated_at": now,
    }


def _append(
    using: str,
    agent: Any,
    rows: Sequence[Sequence[Any]],
    *,
    branch: int = 0,
    expected: int | None = None,
    epoch: int | None = None,
    counting: Any = None,
) -> int | None:
    names = [field.attname for field in message_writes.WIDE_FIELDS[: len(rows[0])]]
    with transaction.atomic(using):
        session = SessionAgent.objects.using(using).get(pk=agent).session_id
        locked = Session.objects.using(using).select_for_update().get(pk=session)
        messages = SessionMessage.objects.using(using)
        last = messages.filter(agent=agent, branch=branch).aggregate(last=Max("message_id"))
        first = 0 if last["last"] is None else last["last"] + 1
        created = [
            SessionMessage(
                **_columns(names, row),
                session_id=session,
                agent_id=agent,
                branch=branch,
                message_id=position,
                change=locked.change,
            )
            for position, row in enumerate(rows, first)
        ]
        messages.bulk_create(created)
        if counting is not None:
            _count(using, counting)
    return first


def _count(using: str, counting: Any) -> None:
    move_counters(Session.objects.using(using).filter(pk=counting.session), counting.spent)


def _insert(using: str, rows: Sequence[Sequence[Any]]) -> None:
    names = [field.attname for field in message_writes.ALL_FIELDS]
    rows = [SessionMessage(**_columns(names, row)) for row in rows]
    SessionMessage.objects.using(using).bulk_create(rows)


def _pop(using: str, agent: Any, *, branch: int = 0) -> message_writes.PoppedRow | None:
    rows = SessionMessage.objects.using(using).filter(agent=agent, branch=branch)
    values = rows.order_by("-message_id").values_list(
        "pk", "source", "message_id", PAYLOAD_TEXT, "redacted_at"
    )
    found = values.first()
    if found is None:
        return None
    key, source, position, text, redacted = found
    SessionMessage.objects.using(using).filter(pk=key).delete()
    return message_writes.PoppedRow(
        key,
        source or key,
        position,
        text,
        redacted is not None,
        has_error=False,
        has_feedback=False,
    )


def _redact_rows(using: str, rows: Sequence[Any], event: Any, *, change: int) -> int:
    count = 0
    for key, revision, columns in rows:
        payload = json.loads(columns["message"])
        count += (
            SessionMessage.objects.using(using)
            .filter(pk=key, revision=revision)
            .update(
                redaction=event,
                redaction_change=change,
                revision=revision + 1,
                **{**columns, "message": payload},
            )
        )
    return count


def _values(using: str, agent: Any, branch: int, latest: int | None, *columns: Any) -> list[Any]:
    rows = SessionMessage.objects.using(using).filter(agent=agent, branch=branch)
    rows = rows.order_by("message_id") if latest is None else rows.order_by("-message_id")[:latest]
    return list(rows.values_list(*columns))


def _texts(using: str, agent: Any, *, branch: int = 0, latest: int | None = None) -> list[Any]:
    return _values(using, agent, branch, latest, PAYLOAD_TEXT)


def _contents(using: str, agent: Any, *, branch: int = 0, latest: int | None = None) -> list[Any]:
    found = _values(using, agent, branch, latest, "message_id", PAYLOAD_TEXT, "redacted_at")
    return [(position, text, redacted is not None) for position, text, redacted in found]


def _get_session(using: str, key: Any, owner: Any) -> Session | None:
    rows = Session.objects.using(using).filter(**key._asdict())
    if owner is not EVERYBODY:
        rows = rows.filter(owner=None if owner is NOBODY else owner)
    return rows.first()


def _list_sessions(using: str, owner: Any, namespace: str, scope: str, **page: Any) -> list[Any]:
    rows = Session.objects.using(using).filter(namespace=namespace, scope=scope)
    if owner is not EVERYBODY:
        rows = rows.filter(owner=None if owner is NOBODY else owner)
    return list(rows.order_by("-last_activity_at", "-pk")[: page["limit"]])


def _get_agent(using: str, session: Any, agent_id: str) -> SessionAgent | None:
    return SessionAgent.objects.using(using).filter(session=session, agent_id=agent_id).first()


def _session_and_agent(using: str, key: Any, agent_id: str) -> Any:
    session = _get_session(using, key, EVERYBODY)
    return session and (session, _get_agent(using, session.pk, agent_id))


class _ConcurrentFuture(workers.DatabaseFuture[Any]):
    """Awaited by ``asyncio.wrap_future``."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._future: Future[None] = Future()

    def finish(self) -> Any:
        super().finish()
        self._future.set_result(None)

    def __await__(self) -> Generator[Any, None, Any]:
        yield from asyncio.shield(asyncio.wrap_future(self._future)).__await__()
        return self.result()


_executor = ThreadPoolExecutor(1, initializer=workers._own_connections)


def _submit(function: Callable[[], Any], call: Any = None) -> Any:
    work = workers.DatabaseFuture(function)
    _executor.submit(work.run, workers.close_unusable_connections)
    return work


def _close_old() -> None:
    for connection in connections.all(initialized_only=True):
        connection.close_if_unusable_or_obsolete()


def _loads_all(texts: Sequence[str]) -> list[Any]:
    return [exact_json._decode(json.loads(text)) for text in texts]


def _dumps(value: object, limits: Any = None) -> str:
    return json.dumps(value, ensure_ascii=False)


_APPEND_STATEMENTS = ("_sqlite_statement", "_postgresql_statement", "_postgresql_counting")
_append_alone = appends.append


def _append_then_count(
    using: str, agent: Any, rows: Sequence[Any], *, counting: Any = None, **conditions: Any
) -> int | None:
    with transaction.atomic(using):
        first = _append_alone(using, agent, rows, **conditions)
        if counting is not None:
            _count(using, counting)
    return first


MECHANISMS = (
    Mechanism(
        "the append as one statement",
        "sql/appends.py",
        "a transaction of the ORM: lock, last position, `bulk_create`",
        [("append some", _STORE)],
        _patched((appends, "append", _append)),
    ),
    Mechanism(
        "appends committed together",
        "db/groups.py",
        "a commit for each",
        [("at once", _OPENAI)],
        _patched((bridge._own_pool, "_together", None)),
    ),
    Mechanism(
        "those of a group as one statement",
        "sql/grouped_appends.py",
        "a statement for each, in one transaction",
        [("at once", _STORE)],
        _patched((_append_groups, "_write_statement", _append_groups._write_transaction)),
        ["postgresql"],
    ),
    Mechanism(
        "counters in the append",
        "sql/appends.py",
        "a transaction with a `QuerySet.update` more",
        [("append some", _OPENAI)],
        _patched((appends, "append", _append_then_count)),
    ),
    Mechanism(
        "the SQL of an append, kept",
        "sql/appends.py",
        "built for each append",
        [("append some", _STORE)],
        _patched(
            *((appends, name, getattr(appends, name).__wrapped__) for name in _APPEND_STATEMENTS)
        ),
    ),
    Mechanism(
        "array literals",
        "sql/appends.py",
        "lists, which the driver adapts",
        [("batch", _STORE)],
        _patched((appends, "array_literal", list)),
        ["postgresql"],
    ),
    Mechanism(
        "`insert`",
        "sql/message_writes.py",
        "`bulk_create`",
        [("copy", _STORE)],
        _patched((message_writes, "insert", _insert)),
    ),
    Mechanism(
        "`pop`",
        "sql/message_writes.py",
        "the last row read, and deleted by the ORM",
        [("pop", _STORE)],
        _patched((message_writes, "pop", _pop)),
    ),
    Mechanism(
        "`redact_rows`",
        "sql/message_writes.py",
        "`QuerySet.update` for each message",
        [("redact", _STORE)],
        _patched((_redaction, "redact_rows", _redact_rows)),
    ),
    Mechanism(
        "conversations as SQL",
        "sql/message_reads.py",
        "`values_list`",
        [("restore 10", _STORE)],
        _patched(
            (message_reads, "select_texts", _texts), (message_reads, "select_contents", _contents)
        ),
    ),
    Mechanism(
        "the SQL of a conversation, kept",
        "sql/message_reads.py",
        "built for each read",
        [("restore 10", _STORE)],
        _patched((message_reads, "_statements", _NoCache())),
    ),
    Mechanism(
        "sessions and agents as SQL",
        "sql/lookup.py",
        "`QuerySet.first`",
        [("restore 10", _OPENAI)],
        _patched(
            (lookup, "get_session", _get_session),
            (lookup, "get_agent", _get_agent),
            (lookup, "session_and_agent", _session_and_agent),
        ),
    ),
    Mechanism(
        "lists of sessions as SQL",
        "sql/lookup.py",
        "a queryset of models",
        [("list", _STORE)],
        _patched((lookup, "recent_sessions", _list_sessions)),
    ),
    Mechanism(
        "the SQL of a lookup, kept",
        "sql/lookup.py",
        "built for each lookup",
        [("restore 10", _OPENAI)],
        _patched((lookup, "_statements", _NoCache())),
    ),
    Mechanism(
        "columns without converters, kept",
        "sql/lookup.py",
        "each column asked each time",
        [("restore 10", _OPENAI)],
        _patched((lookup, "_converted", _NoCache())),
    ),
    Mechanism(
        "`DatabaseFuture`",
        "db/workers.py",
        "`concurrent.futures.Future` and `asyncio.wrap_future`",
        [("at once", _STORE)],
        _patched((workers, "DatabaseFuture", _ConcurrentFuture)),
    ),
    Mechanism(
        "`WorkerPool`",
        "db/workers.py",
        "`ThreadPoolExecutor(1)`",
        [("at once", _STORE)],
        _patched((bridge._own_pool, "submit", _submit)),
    ),
    Mechanism(
        "connections by thread",
        "db/workers.py",
        "`close_if_unusable_or_obsolete` for all of `connections`",
        [("append some", _STORE)],
        _patched((workers, "close_unusable_connections", _close_old)),
    ),
    Mechanism(
        "`loads_all`",
        "content/exact_json.py",
        "`json.loads` and a walk through the value for each",
        [("restore some", _STORE)],
        _patched((exact_json, "loads_all", _loads_all)),
    ),
    Mechanism(
        "exact `dumps`",
        "content/exact_json.py",
        "`json.dumps`, which checks nothing",
        [("batch", _STORE)],
        _patched((exact_json, "dumps", _dumps)),
    ),
)
