"""Thousands of sessions around the few that a test makes, and how statements are planned then."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection
from django.utils import timezone

from django_agent_sessions.models import (
    AuditEvent,
    Blob,
    BlobReference,
    Branch,
    MessageFeedback,
    Participant,
    RunLease,
    Session,
    SessionAgent,
    SessionMessage,
    SessionMultiAgent,
    ShareLink,
    Snapshot,
    StoredObject,
    StoredPart,
    TurnUsage,
)

MANY = 2_000
EACH = 4
"""Messages of each session."""

LARGER = 100
"""As if the tables had so many times the pages: to read one whole costs so many times as much."""

_ROWS = "FROM {table} template, generate_series(1, {count}) n WHERE template.{key} = %s"


def crowd_around(session: Session) -> None:
    """Copies a row of each table that belongs to a session, for thousands of other sessions."""
    with connection.cursor() as cursor:
        # The copies refer to each other rightly; that need not be checked row by row.
        cursor.execute("SET LOCAL session_replication_role = replica")
    agent = session.agents.get()
    message = SessionMessage.objects.filter(session=session)[0]
    stored = StoredObject.objects.create(key="o", digest="o", session=session)
    blob = Blob.objects.create(session=session, sha256="b", size=1, storage="default", file="b")
    own, owner = _key(Session, "n"), _key(Session, f"n %% {MANY} + 1")
    its_agent = _key(SessionAgent, f"n %% {MANY} + 1")
    past = "now() - n * interval '1 minute'"
    belongs: dict[str, Any] = {"session_id": owner}
    spoken: dict[str, Any] = {**belongs, "agent_id": its_agent}
    _copy(
        session,
        session_id="'crowd-' || n",
        external_id="NULL",
        owner_id="NULL",
        title="'Weather'",
        last_activity_at=past,
        created_at=past,
        expires_at=f"CASE n %% 100 WHEN 0 THEN {past} END",
    )
    _copy(agent, **belongs)
    _copy(message, times=EACH, **spoken, message_id=f"n / {MANY}", text="'Sunny'")
    _copy(SessionMultiAgent.objects.get(session=session), **belongs)
    _copy(Branch.objects.filter(session=session)[0], **spoken)
    _copy(Snapshot.objects.filter(session=session)[0], **spoken)
    _copy(
        MessageFeedback.objects.filter(session=session)[0],
        **belongs,
        message_id=_key(SessionMessage, "n"),
        value="n %% 3 - 1",
    )
    _copy(TurnUsage.objects.create(session=session, agent=agent, turn=1), **spoken)
    _copy(stored, **belongs, key="'o' || n", digest="md5(n::text)")
    _copy(
        StoredPart.objects.create(stored=stored, number=0, data=b"x"),
        stored_id=_key(StoredObject, "n"),
    )
    _copy(blob, **belongs, sha256="md5(n::text)")
    _copy(
        BlobReference.objects.create(session=session, message=message.pk, blob=blob),
        **belongs,
        blob_id=_key(Blob, "n"),
        message=_key(SessionMessage, "n"),
    )
    _copy(session.participants.get(), **belongs, user_id="n + 1000000000")
    _copy(session.share_links.get(), **belongs, token_hash="md5(n::text)")
    _copy(RunLease.objects.create(session=session, expires_at=timezone.now()), session_id=own)
    event = AuditEvent(action="read", actor="crowd", session=session.pk, target=message.pk)
    event.save()
    _copy(event, session=owner, target=_key(SessionMessage, "n"), actor="'crowd-' || n")
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = origin")
        for model in BIG.values():
            cursor.execute(f"ANALYZE {model._meta.db_table}")


BIG: dict[str, Any] = {
    model._meta.db_table: model
    for model in (
        *(Session, SessionAgent, SessionMessage, SessionMultiAgent, Branch, Snapshot, TurnUsage),
        *(StoredObject, StoredPart, Blob, BlobReference, RunLease, AuditEvent),
        *(MessageFeedback, Participant, ShareLink),
    )
}
"""By their names the tables that grow with what is said, and that nothing may read whole."""


@contextmanager
def no_table_read_whole() -> Iterator[dict[str, str]]:
    """Has PostgreSQL explain each statement, and asserts in the end that none reads a big table."""
    explained: dict[str, str] = {}
    busy = False

    def explain(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        nonlocal busy
        verb = sql.lstrip("( ").split(None, 1)[0].upper()
        if not (busy or many) and sql not in explained and verb in _VERBS:
            busy = True
            try:
                # A cursor of its own: that of the statement may have a name on the server.
                with connection.cursor() as cursor:
                    cursor.execute(f"SET LOCAL seq_page_cost = {LARGER}")
                    cursor.execute(f"EXPLAIN (FORMAT JSON) {sql}", params)
                    found = cursor.fetchone()[0]
                    cursor.execute("SET LOCAL seq_page_cost TO DEFAULT")
                explained[sql] = _fault(found if isinstance(found, list) else json.loads(found))
            finally:
                busy = False
        return execute(sql, params, many, context)

    with connection.execute_wrapper(explain):
        yield explained
    wrong = [f"{fault}: {sql}" for sql, fault in explained.items() if fault]
    assert not wrong, "\n\n".join(wrong)


_VERBS = frozenset({"SELECT", "INSERT", "UPDATE", "DELETE", "WITH"})


def _fault(plans: list[Any]) -> str:
    waiting = [(plan["Plan"], False) for plan in plans]
    while waiting:
        node, limited = waiting.pop()
        kind, table = node["Node Type"], node.get("Relation Name")
        limited = limited or kind == "Limit"
        # An index from its one end to the other is as much.
        whole = kind in ("Index Scan", "Index Only Scan") and "Index Cond" not in node
        if table in BIG and (kind == "Seq Scan" or (whole and not limited)):
            return f"reads all of {table}"
        waiting += [(inner, limited) for inner in node.get("Plans", [])]
    return ""


def _key(model: Any, number: str) -> str:
    """Writes the key of the n-th row of a table in SQL."""
    table = f"{list(BIG).index(model._meta.db_table):04x}"
    return f"('{table}' || lpad(to_hex({number}), 28, '0'))::uuid"


def _copy(template: Any, /, *, times: int = 1, **changed: Any) -> None:
    """Copies a row, with SQL for what is another in each copy."""
    options = template._meta
    columns = [field.column for field in options.concrete_fields]
    if options.pk.column not in changed:
        changed[options.pk.column] = _key(type(template), "n")
    values = [changed.pop(column, f'template."{column}"') for column in columns]
    assert not changed
    named = ", ".join(f'"{column}"' for column in columns)
    rows = _ROWS.format(table=options.db_table, count=times * MANY, key=options.pk.column)
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {options.db_table} ({named}) SELECT {', '.join(values)} {rows}",
            [template.pk],
        )
