"""Conversations at chosen times, and the plain recount that the roll-up is held against."""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django_agent_sessions.models import Session, SessionAgent, SessionMessage, UsageRollup

NOON = datetime(2026, 3, 31, 12, tzinfo=UTC)
"""A month ends twelve hours later."""


def key_made_at(moment: datetime) -> UUID:
    milliseconds = (moment - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1)
    rest = random.getrandbits(74)
    return UUID(int=milliseconds << 80 | 7 << 76 | (rest >> 62) << 64 | 2 << 62 | rest % 2**62)


def start(name: str, at: datetime, owner: Any = None, namespace: str = "") -> Session:
    return Session.objects.create(
        id=key_made_at(at), namespace=namespace, session_id=name, owner=owner, created_at=at
    )


def join(session: Session, agent_id: str = "agent") -> SessionAgent:
    return SessionAgent.objects.create(
        id=key_made_at(session.created_at), session=session, agent_id=agent_id, dialect="strands"
    )


def message(agent: SessionAgent, position: int, at: datetime, **columns: Any) -> SessionMessage:
    return SessionMessage(
        id=key_made_at(at),
        session_id=agent.session_id,
        agent=agent,
        message_id=position,
        message={},
        created_at=at,
        **columns,
    )


def say(agent: SessionAgent, times: Iterable[datetime], **columns: Any) -> None:
    first = agent.messages.count()
    SessionMessage.objects.bulk_create(
        [message(agent, first + number, at, **columns) for number, at in enumerate(times)],
        batch_size=500,
    )


Recount = dict[tuple[str, str, str], tuple[int, ...]]


def rows_of(at: datetime, namespace: str, owner: str) -> list[tuple[str, str, str]]:
    """The rows in which a session and its messages at a time are counted."""
    day, hour = f"{at.astimezone(UTC):%Y-%m-%d}", f"{at.astimezone(UTC):%Y-%m-%d %H}"
    return [
        ("day", day, ""),
        ("hour", hour, ""),
        ("namespace", day, namespace),
        ("namespace_hour", hour, namespace),
        ("owner_day", day, owner),
        ("owner", f"{day[:-2]}01", owner),
    ]


def rows_of_agent(at: datetime, agent: str) -> list[tuple[str, str, str]]:
    return [
        ("agent", f"{at.astimezone(UTC):%Y-%m-%d}", agent),
        ("agent_hour", f"{at.astimezone(UTC):%Y-%m-%d %H}", agent),
    ]


def recount() -> Recount:
    """Counts every row anew, one by one, in plain Python."""
    found: dict[tuple[str, str, str], list[int]] = defaultdict(lambda: [0, 0, 0, 0, 0])
    for session in Session.objects.all():
        owner = str(session.owner_id or "")
        for key in rows_of(session.created_at, session.namespace, owner):
            found[key][0] += 1
    for row in SessionMessage.objects.select_related("agent", "session"):
        of_agent = rows_of_agent(row.created_at, row.agent.agent_id)
        for key in of_agent:
            found[key][0] += row.message_id == 0
        owner = str(row.session.owner_id or "")
        for key in [*of_agent, *rows_of(row.created_at, row.session.namespace, owner)]:
            figures = found[key]
            figures[1] += 1
            figures[2] += row.input_tokens or 0
            figures[3] += row.output_tokens or 0
            figures[4] += row.has_error
    return {key: tuple(figures) for key, figures in found.items()}


def name_of(row: UsageRollup) -> tuple[str, str, str]:
    hour = f" {row.hour:02}" if row.dimension.endswith("hour") else ""
    return row.dimension, f"{row.period:%Y-%m-%d}{hour}", row.key


def rolled_up() -> Recount:
    return {
        name_of(row): (
            row.sessions,
            row.messages,
            row.input_tokens or 0,
            row.output_tokens or 0,
            row.errors,
        )
        for row in UsageRollup.objects.all()
    }


def latencies_counted() -> Counter[tuple[str, str, str]]:
    """How many latencies each row's histogram holds."""
    return Counter(
        {
            name_of(row): sum(row.latencies.values())
            for row in UsageRollup.objects.all()
            if row.latencies
        }
    )


def nearest_rank(values: Iterable[int], share: float) -> int:
    """The exact percentile."""
    ordered = sorted(values)
    return ordered[max(1, math.ceil(share * len(ordered))) - 1]
