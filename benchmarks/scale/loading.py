"""Filling a database by COPY, as fast as PostgreSQL reads."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import connection

from django_agent_sessions.content import dialects
from django_agent_sessions.models import Session, SessionAgent, SessionMessage

DAYS = 90
MESSAGES = 50
"""Messages of each session; one session has 10,000."""

LONG = 10_000
LARGE = 36 * 1024 * 1024
"""Bytes of the one large message."""

COMMON, RARE = "invoice", "xylophone"
"""One in every third message; one in 60 sessions, whatever their number, so that a page is full."""

RARE_SESSIONS = 60
_WORDS = [f"word{number}" for number in range(2000)]


def load(messages: int) -> dict[str, str]:
    """Makes the tables and fills them."""
    call_command("migrate", verbosity=0)
    random.seed(messages)
    owners = [
        get_user_model().objects.create(username=f"user{number}").pk
        for number in range(max(10, messages // 5000))
    ]
    now = datetime.now(UTC)
    chosen: dict[str, str] = {}
    lengths = [MESSAGES] * (messages // MESSAGES)
    # Beside the others, in the small database too: the same page is compared.
    lengths.insert(len(lengths) // 2, LONG)
    sessions, agents, said = [], [], []
    for number, length in enumerate(lengths):
        start = now - timedelta(days=DAYS * (1 - number / len(lengths)), minutes=30)
        session, agent = _key(start), _key(start)
        if length == LONG:
            chosen["long"] = str(session)
        elif number == 1:
            chosen["usual"] = str(session)
        elif number == 2:
            chosen["large"] = str(session)
        sessions.append(_session(session, number, random.choice(owners), length, start))
        agents.append((agent, session, f"assistant-{number % 5}", start))
        rare = number % (len(lengths) // RARE_SESSIONS) == 0
        said.append((session, agent, length, start, rare))
    _copy(Session, sessions)
    _copy(SessionAgent, [_agent(*row) for row in agents])
    _copy(SessionMessage, _messages(said))
    _large(UUID(chosen["large"]))
    call_command("agent_sessions_search_index", "create", stdout=sys.stderr)
    call_command("roll_up_agent_usage", stdout=sys.stderr)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
    return chosen


def _session(key: UUID, number: int, owner: Any, length: int, start: datetime) -> dict[str, Any]:
    return {
        "id": key,
        "namespace": "",
        "session_id": f"session-{number}",
        "session_type": "AGENT",
        "owner_id": owner,
        "title": f"About {random.choice(_WORDS)}",
        "metadata": "{}",
        "redaction_epoch": 0,
        "redactions": 0,
        "message_count": length,
        "input_tokens": length * 40,
        "output_tokens": length * 20,
        "legal_hold": False,
        "created_at": start,
        "updated_at": start,
        "last_activity_at": start + timedelta(seconds=length),
    }


def _agent(key: UUID, session: UUID, agent_id: str, start: datetime) -> dict[str, Any]:
    return {
        "id": key,
        "session_id": session,
        "agent_id": agent_id,
        "dialect": dialects.STRANDS,
        "state": "{}",
        "conversation_manager_state": "{}",
        "internal_state": "{}",
        "created_at": start,
        "updated_at": start,
    }


def _messages(said: list[tuple[UUID, UUID, int, datetime, bool]]) -> Iterator[dict[str, Any]]:
    for session, agent, length, start, rare in said:
        for position in range(length):
            at = start + timedelta(seconds=position)
            role = "assistant" if position % 2 else "user"
            text = _text(position, rare=rare and position == length // 2)
            yield {
                "id": _key(at),
                "session_id": session,
                "agent_id": agent,
                "branch": 0,
                "message_id": position,
                "revision": 0,
                "message": json.dumps({"role": role, "content": [{"text": text}]}),
                "role": role,
                "text": text,
                "input_tokens": 80 if position % 2 else None,
                "output_tokens": 40 if position % 2 else None,
                "latency_ms": random.randrange(200, 4000) if position % 2 else None,
                "created_at": at,
                "updated_at": at,
            }


def _text(position: int, *, rare: bool) -> str:
    words = random.choices(_WORDS, k=60)
    if position % 3 == 0:
        words[7] = COMMON
    if rare:
        words[9] = RARE
    return " ".join(words)


def _large(session: UUID) -> None:
    """Makes the newest message of a session one that must not leave the database."""
    last = SessionMessage.objects.filter(session=session).order_by("-message_id")[0]
    payload = {"role": "user", "content": [{"text": "large " * (LARGE // 6)}]}
    SessionMessage.objects.filter(pk=last.pk).update(message=payload, text="large " * 16_000)


def _key(moment: datetime) -> UUID:
    milliseconds = int(moment.timestamp() * 1000)
    value = (milliseconds << 80) | (7 << 76) | (random.getrandbits(12) << 64) | (2 << 62)
    return UUID(int=value | random.getrandbits(62))


def _copy(model: Any, rows: Any) -> None:
    rows = iter(rows)
    first = next(rows)
    columns = ", ".join(first)
    with connection.cursor() as cursor:
        statement = f"COPY {model._meta.db_table} ({columns}) FROM STDIN"
        with cursor.cursor.copy(statement) as copy:
            copy.write_row(list(first.values()))
            for row in rows:
                copy.write_row(list(row.values()))
