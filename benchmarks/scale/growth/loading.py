"""Filling a database by COPY as fast as PostgreSQL reads: ten million messages in minutes.

Groups of :data:`TOGETHER` sessions talk at once, so that the messages of one lie between those of
others on disk, as they do where many people talk at a time.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.models import Model

from django_agent_sessions.content import dialects
from django_agent_sessions.models import Session, SessionAgent, SessionMessage
from django_agent_sessions.sql.partitioning import PartitionMessages

DAYS = 90
MESSAGES = 50
"""Messages of each session."""

TOGETHER = 20
"""How many sessions talk at the same time."""

LONG, LONG_SESSIONS = 1_000, 4
"""Messages of each longer session; as many of them in a small database as in a large one."""

MINE = 120
"""Sessions of the one person whose list is read, spread over all the time."""

PLANTED = 20
"""Sessions of one evening by itself, whose usage is counted."""

PERSON, STAFF = "person", "staff"
VARIANTS = 200
"""How many different conversations there are; what is said makes no difference to any path."""

TEXT = 380
"""Characters of a message; the payload around it makes about 450 bytes."""

_SESSION = (
    "id, namespace, session_id, session_type, owner_id, title, metadata, redaction_epoch, "
    "redactions, message_count, input_tokens, output_tokens, legal_hold, created_at, updated_at, "
    "last_activity_at"
)
_AGENT = (
    "id, session_id, agent_id, dialect, state, conversation_manager_state, internal_state, "
    "created_at, updated_at"
)
_MESSAGE = (
    "id, session_id, agent_id, branch, message_id, revision, message, role, text, input_tokens, "
    "output_tokens, latency_ms, created_at, updated_at"
)
_words = [f"word{number}" for number in range(2000)]


def load(messages: int) -> None:
    """Makes the tables and fills them."""
    started = time.perf_counter()
    call_command("migrate", verbosity=0)
    random.seed(messages)
    users: Any = get_user_model().objects
    person = users.create(username=PERSON)
    users.create_superuser(STAFF, password="x")
    others = users.bulk_create(
        get_user_model()(username=f"user{number}") for number in range(max(10, messages // 5000))
    )
    sessions = _sessions(messages, person.pk, [user.pk for user in others])
    _copy(Session, _SESSION, (row for row, _, _ in sessions))
    _copy(SessionAgent, _AGENT, (row for _, row, _ in sessions))
    with _without_indexes(SessionMessage):
        _copy(SessionMessage, _MESSAGE, _messages([spoken for *_, spoken in sessions]))
        _say(f"{messages:,} messages read", started)
    _say("indexes made", started)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM (ANALYZE, FREEZE)")
    _say("vacuumed", started)


def partition(partitions: int) -> None:
    """Parts the messages as a project's migration would."""
    state = MigrationLoader(connection).project_state()
    with connection.schema_editor(atomic=True) as editor:
        PartitionMessages(partitions).database_forwards("agent_sessions", editor, state, state)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM (ANALYZE, FREEZE)")


def _sessions(messages: int, person: int, others: list[int]) -> list[tuple[str, str, Any]]:
    """Makes the rows of sessions and agents, and what is needed to make those of messages."""
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    lengths = [MESSAGES] * (messages // MESSAGES)
    for number in range(LONG_SESSIONS):
        lengths.insert(number * TOGETHER, LONG)
    usual = len(lengths)
    lengths += [MESSAGES] * PLANTED
    between = max(1, len(lengths) // MINE)
    found = []
    for number, length in enumerate(lengths):
        # A group at a time, oldest first; the last a day ago, so that what is measured is newer.
        start = now - timedelta(days=DAYS * (1 - number // TOGETHER * TOGETHER / usual) + 1)
        if number >= usual:
            start = now - timedelta(hours=12)
        start = start.replace(second=0, microsecond=0)
        milliseconds = int(start.timestamp() * 1000)
        session, agent = _key(milliseconds), _key(milliseconds)
        name = f"session-{number}" if number < usual else f"planted-{number - usual}"
        owner = person if number % between == 0 else random.choice(others)
        end = start + timedelta(seconds=length)
        # Tabs part the columns, and nothing in them needs to be escaped.
        row = (
            f"{session}\t\t{name}\tAGENT\t{owner}\tAbout {random.choice(_words)}\t{{}}"
            f"\t0\t0\t{length}\t{length * 40}\t{length * 20}\tf\t{start}\t{start}\t{end}\n"
        )
        said_by = f"{agent}\t{session}\tassistant-{number % 5}\t{dialects.STRANDS}"
        found.append(
            (
                row,
                f"{said_by}\t{{}}\t{{}}\t{{}}\t{start}\t{start}\n",
                (session, agent, length, start, milliseconds),
            )
        )
    return found


def _messages(spoken: list[Any]) -> Iterator[str]:
    """Makes the rows of messages, a group of sessions at a time, each in turns with the others."""
    variants = [[_said(position) for position in range(MESSAGES)] for _ in range(VARIANTS)]
    for first in range(0, len(spoken), TOGETHER):
        group = [(*one, random.choice(variants)) for one in spoken[first : first + TOGETHER]]
        rows = []
        for position in range(max(length for _, _, length, *_ in group)):
            for session, agent, length, start, milliseconds, said in group:
                if position < length:
                    at = start + timedelta(seconds=position)
                    rows.append(
                        f"{_key(milliseconds + position * 1000)}\t{session}\t{agent}\t0\t{position}"
                        f"{said[position % MESSAGES]}{at}\t{at}\n"
                    )
        yield "".join(rows)


def _said(position: int) -> str:
    """Makes the columns between a message's place and its times."""
    text = " ".join(random.choices(_words, k=60))[:TEXT]
    role = "assistant" if position % 2 else "user"
    payload = json.dumps({"role": role, "content": [{"text": text}]})
    figures = f"80\t40\t{random.randrange(200, 4000)}" if position % 2 else "\\N\t\\N\t\\N"
    return f"\t0\t{payload}\t{role}\t{text}\t{figures}\t"


def _key(milliseconds: int) -> str:
    return f"{milliseconds:012x}7{random.getrandbits(12):03x}8{random.getrandbits(60):015x}"


def _copy(model: type[Model], columns: str, rows: Iterator[str]) -> None:
    with connection.cursor() as cursor:
        statement: Any = f"COPY {model._meta.db_table} ({columns}) FROM STDIN"
        with cursor.cursor.copy(statement) as copy:
            for row in rows:
                copy.write(row)


@contextmanager
def _without_indexes(model: type[Model]) -> Iterator[None]:
    """Takes a table's constraints and indexes away, and makes them again from what is there."""
    table = model._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint "
            "WHERE conrelid = %s::regclass AND contype IN ('p', 'u', 'f') ORDER BY contype DESC",
            [table],
        )
        constraints = cursor.fetchall()
        cursor.execute(
            "SELECT indexrelid::regclass, pg_get_indexdef(indexrelid) FROM pg_index "
            "WHERE indrelid = %s::regclass AND indexrelid NOT IN "
            "(SELECT conindid FROM pg_constraint WHERE conrelid = indrelid)",
            [table],
        )
        indexes = cursor.fetchall()
        for name, _ in constraints:
            cursor.execute(f"ALTER TABLE {table} DROP CONSTRAINT {name}")
        for name, _ in indexes:
            cursor.execute(f"DROP INDEX {name}")
        yield
        cursor.execute("SET maintenance_work_mem = '512MB'")
        for _, definition in indexes:
            cursor.execute(definition)
        for name, definition in constraints:
            cursor.execute(f"ALTER TABLE {table} ADD CONSTRAINT {name} {definition}")


def _say(what: str, started: float) -> None:
    print(f"  {what} after {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
