"""What is stored around a million sessions, so that each filter of a list finds some."""

from __future__ import annotations

import sys
import time
from typing import Any

from django.apps import apps
from django.contrib.auth import get_user_model
from django.db import connection

from benchmarks.scale.loading import LONG_PAGE, PERSON, STAFF
from django_agent_sessions.models import Operation, Session, SessionMessage
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.owners import EVERYBODY

OPERATIONS = 200

STATEMENTS = (
    "UPDATE {session} SET legal_hold = true WHERE session_id LIKE '%000'",
    "UPDATE {session} SET redactions = 1, redaction_epoch = 1 WHERE session_id LIKE '%11'",
    "UPDATE {session} SET archived_at = last_activity_at WHERE session_id LIKE '%22'",
    "UPDATE {session} SET expires_at = last_activity_at WHERE session_id LIKE '%33'",
    "UPDATE {session} SET cost = 900000 * input_tokens WHERE session_id LIKE '%44'",
    "UPDATE {session} SET namespace = 'sales' WHERE session_id LIKE '%5'",
    "UPDATE {session} SET metadata = '{{\"channel\": \"phone\"}}' WHERE session_id LIKE '%6'",
    "INSERT INTO {auditevent} (id, action, actor_id, actor, session, reason, details, created_at) "
    "SELECT id, 'read', '2', 'staff', id, '', '{{}}', created_at FROM {session}",
    "INSERT INTO {messagefeedback} "
    '(id, session_id, message_id, "user", source, value, comment, created_at, updated_at) '
    "SELECT m.id, s.id, m.id, s.owner_id, 'user', CASE WHEN s.session_id LIKE '%77' THEN -1 ELSE 1 "
    "END, '\"\"', m.created_at, m.created_at FROM {session} s JOIN {sessionmessage} m "
    "ON m.session_id = s.id AND m.message_id = 1 WHERE s.session_id LIKE '%7'",
    "INSERT INTO {review} (session_id, state, assignee_id, assignee, updated_by_id, updated_by, "
    "updated_at) SELECT id, 'open', '2', 'staff', '2', 'staff', created_at FROM {session} "
    "WHERE session_id LIKE '%88'",
    "INSERT INTO {label} (id, session_id, name, created_at) SELECT id, id, 'refund', created_at "
    "FROM {session} WHERE session_id LIKE '%88'",
    "INSERT INTO {runlease} (session_id, token, holder, acquired_at, expires_at) SELECT id, id, "
    "'worker', now(), now() + interval '1 day' FROM {session} WHERE session_id LIKE '%9999'",
)


def surround() -> None:
    """Store flags, audit events, feedback, reviews, operations, a branch and a snapshot."""
    tables = {
        str(model._meta.model_name): model._meta.db_table
        for model in apps.get_app_config("agent_sessions").get_models()
    }
    with connection.cursor() as cursor:
        for statement in STATEMENTS:
            started = time.perf_counter()
            cursor.execute(statement.format(**tables))
            seconds = time.perf_counter() - started
            print(f"  {cursor.rowcount:,} rows in {seconds:.0f} s", file=sys.stderr, flush=True)
    store = SessionStore(owner=EVERYBODY)
    [agent] = store.agents.list(store.get(_long().session_id))
    store.branches.create(agent, upto=LONG_PAGE // 2)
    store.snapshots.take(agent)
    Operation.objects.bulk_create(
        Operation(
            kind=Operation.Kind.HOLD,
            status=Operation.Status.DONE,
            started_by=str(_user(STAFF)),
            started_by_name=STAFF,
            criteria={"site": "admin", "filters": {}},
        )
        for _ in range(OPERATIONS)
    )


def keys() -> dict[str, str]:
    """Return the keys in the addresses of pages."""
    long = _long()
    message = SessionMessage.objects.get(session=long, branch=0, message_id=LONG_PAGE // 2)
    found = {
        "usual": Session.objects.get(session_id="session-1").pk,
        "long": long.pk,
        "agent": message.agent_id,
        "message": message.pk,
        "person": _user(PERSON),
        "operation": Operation.objects.latest("id").pk,
    }
    return {name: str(key) for name, key in found.items()}


def _long() -> Session:
    return Session.objects.get(message_count=LONG_PAGE)


def _user(name: str) -> Any:
    return get_user_model().objects.get(username=name).pk
