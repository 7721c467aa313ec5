"""Filling a database by COPY as fast as PostgreSQL reads: ten million messages in minutes.

Groups of :data:`TOGETHER` sessions talk at once, so that the messages of one lie between those of
others on disk, as they do where many people talk at a time.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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

LONG_PAGE = 10_000
"""Messages of the one long session whose page is opened."""

LARGE = 36 * 1024 * 1024
"""Bytes of one large message."""

MINE = 120
"""Sessions of the one person whose list is read, spread over all the time."""

PLANTED = 20
"""Sessions of one evening by itself, whose usage is counted."""

COMMON, RARE = "invoice", "xylophone"
"""One in every third message; one in 60 sessions, whatever their number, so that a page is full."""

RARE_SESSIONS = 60
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
    "id, session_id, agent_id, branch, message_id, message, role, text, input_tokens, "
    "output_tokens, latency_ms, created_at, updated_at"
)
_words = [f"word{number}" for number in range(2000)]


@dataclass(frozen=True)
class Talk:
    """A session with its agent and its messages, one each second."""

    number: int
    name: str
    length: int
    start: datetime
    owner: int
    session: str
    agent: str
    rare: bool

    def session_row(self) -> str:
        """Tabs part the columns, and nothing in them needs to be escaped."""
        end = self.start + timedelta(seconds=self.length)
        return (
            f"{self.session}\t\t{self.name}\tAGENT\t{self.owner}\tAbout {random.choice(_words)}"
            f"\t{{}}\t0\t0\t{self.length}\t{self.length * 40}\t{self.length * 20}\tf"
            f"\t{self.start}\t{self.start}\t{end}\n"
        )

    def agent_row(self) -> str:
        name = f"assistant-{self.number % 5}"
        return (
            f"{self.agent}\t{self.session}\t{name}\t{dialects.STRANDS}\t{{}}\t{{}}\t{{}}"
            f"\t{self.start}\t{self.start}\n"
        )

    def message_row(self, position: int, columns: str) -> str:
        at = self.start + timedelta(seconds=position)
        return f"{_key(at)}\t{self.session}\t{self.agent}\t0\t{position}{columns}{at}\t{at}\n"


def load(messages: int, *, pages: bool, each: int = MESSAGES) -> dict[str, str]:
    """Make the tables and fill them, with this many messages in each session.

    Returns the keys of the sessions whose pages are opened, if it is for these: a usual one, a
    long one, and one with a large message.
    """
    started = time.perf_counter()
    call_command("migrate", verbosity=0)
    random.seed(messages)
    users: Any = get_user_model().objects
    person = users.create(username=PERSON)
    users.create_superuser(STAFF, password="x")
    others = users.bulk_create(
        get_user_model()(username=f"user{number}")
        for number in range(max(10, messages // each // 100))
    )
    talks = list(_talks(messages, each, person.pk, [user.pk for user in others], pages))
    _copy(Session, _SESSION, (talk.session_row() for talk in talks))
    _copy(SessionAgent, _AGENT, (talk.agent_row() for talk in talks))
    with _without_indexes(SessionMessage):
        _copy(SessionMessage, _MESSAGE, _messages(talks))
        _report(f"{messages:,} messages read", started)
    _report("indexes made", started)
    chosen = _open_pages(talks) if pages else {}
    vacuum()
    _report("vacuumed", started)
    return chosen


def partition(partitions: int) -> None:
    """Part the messages as a project's migration would."""
    state = MigrationLoader(connection).project_state()
    with connection.schema_editor(atomic=True) as editor:
        PartitionMessages(partitions).database_forwards("agent_sessions", editor, state, state)
    vacuum()


def _talks(messages: int, each: int, person: int, others: list[int], pages: bool) -> Iterator[Talk]:
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    lengths = [each] * (messages // each)
    if pages:
        lengths.insert(len(lengths) // 2, LONG_PAGE)
    else:
        for number in range(LONG_SESSIONS):
            lengths.insert(number * TOGETHER, LONG)
    usual = len(lengths)
    lengths += [MESSAGES] * PLANTED
    between = max(1, len(lengths) // MINE)
    for number, length in enumerate(lengths):
        # A group at a time, oldest first; the last a day ago, so that what is measured is newer.
        start = now - timedelta(days=DAYS * (1 - number // TOGETHER * TOGETHER / usual) + 1)
        if number >= usual:
            start = now - timedelta(hours=12)
        start = start.replace(second=0, microsecond=0)
        yield Talk(
            number=number,
            name=f"session-{number}" if number < usual else f"planted-{number - usual}",
            length=length,
            start=start,
            owner=person if number % between == 0 else random.choice(others),
            session=_key(start),
            agent=_key(start),
            rare=number % max(1, usual // RARE_SESSIONS) == 0,
        )


def _messages(talks: list[Talk]) -> Iterator[str]:
    """Make the rows of messages, a group of sessions at a time, each in turns with the others."""
    variants = [[_columns(position) for position in range(MESSAGES)] for _ in range(VARIANTS)]
    for first in range(0, len(talks), TOGETHER):
        group = [(talk, random.choice(variants)) for talk in talks[first : first + TOGETHER]]
        rows = []
        for position in range(max(talk.length for talk, _ in group)):
            for talk, variant in group:
                if position < talk.length:
                    columns = variant[position % MESSAGES]
                    if talk.rare and position == talk.length // 2:
                        columns = _columns(position, rare=True)
                    rows.append(talk.message_row(position, columns))
        yield "".join(rows)


def _columns(position: int, *, rare: bool = False) -> str:
    """Make the columns between a message's position and its times."""
    words = random.choices(_words, k=60)
    if position % 3 == 0:
        words[7] = COMMON
    if rare:
        words[9] = RARE
    text = " ".join(words)[:TEXT]
    role = "assistant" if position % 2 else "user"
    message: dict[str, Any] = {"role": role, "content": [{"text": text}]}
    figures = "\\N\t\\N\t\\N"
    if position % 2:
        latency = random.randrange(200, 4000)
        message["metadata"] = {
            "usage": {"inputTokens": 80, "outputTokens": 40},
            "metrics": {"latencyMs": latency},
        }
        figures = f"80\t40\t{latency}"
    return f"\t{json.dumps(message)}\t{role}\t{text}\t{figures}\t"


def _key(moment: datetime) -> str:
    milliseconds = int(moment.timestamp() * 1000)
    return f"{milliseconds:012x}7{random.getrandbits(12):03x}8{random.getrandbits(60):015x}"


def _open_pages(talks: list[Talk]) -> dict[str, str]:
    """Choose the sessions, write the large message, and make what the pages read."""
    long = next(talk for talk in talks if talk.length == LONG_PAGE)
    chosen = {"usual": talks[1].session, "large": talks[2].session, "long": long.session}
    last = SessionMessage.objects.filter(session_id=chosen["large"]).order_by("-message_id")[0]
    payload = {"role": "user", "content": [{"text": "large " * (LARGE // 6)}]}
    SessionMessage.objects.filter(pk=last.pk).update(message=payload, text="large " * 16_000)
    call_command("agent_sessions_search_index", "create", stdout=sys.stderr)
    call_command("agent_sessions_roll_up_usage", stdout=sys.stderr)
    return chosen


def vacuum() -> None:
    with connection.cursor() as cursor:
        cursor.execute("VACUUM (ANALYZE, FREEZE)")


def _copy(model: type[Model], columns: str, rows: Iterable[str]) -> None:
    table, given = model._meta.db_table, set(columns.split(", "))
    fields = [field for field in model._meta.concrete_fields if field.column not in given]
    with connection.cursor() as cursor:
        for field in fields:
            if not field.null:
                default = f'ALTER TABLE {table} ALTER COLUMN "{field.column}" SET DEFAULT %s'
                cursor.execute(default, [field.get_default()])
        statement: Any = f"COPY {table} ({columns}) FROM STDIN"
        with cursor.cursor.copy(statement) as copy:
            for row in rows:
                copy.write(row)
        for field in fields:
            cursor.execute(f'ALTER TABLE {table} ALTER COLUMN "{field.column}" DROP DEFAULT')


@contextmanager
def _without_indexes(model: type[Model]) -> Iterator[None]:
    """Take a table's constraints and indexes away, and make them again from what is there."""
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


def _report(what: str, started: float) -> None:
    print(f"  {what} after {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
