"""Filling the database, and finding where its pages begin and end."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import connection

from django_agent_sessions.models import Session

OTHERS = 100
_BATCH = 2000


@dataclass
class Places:
    """Keys of sessions in the order of the list."""

    number: int
    """Of the last full page."""

    first: list[str]
    """On the first page."""

    last: list[str]
    """On the page of this number."""

    previous: str
    """The last one on the page before that."""

    before_previous: str
    """The last one on the page before that one."""


def load(count: int) -> tuple[Any, Any]:
    """Makes the tables and fills them."""
    call_command("migrate", verbosity=0)
    random.seed(count)
    users: Any = get_user_model().objects
    person = users.create(username="person")
    sleeper = users.create(username="sleeper")
    others = [users.create(username=f"other{number}") for number in range(OTHERS)]
    for batch in _batches(_sessions(count, person, sleeper, others)):
        Session.objects.bulk_create(batch)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
    return person, sleeper


def places(person: Any, limit: int, number: int) -> Places:
    """Finds pages by reading the whole list, as the API never does."""
    rows = Session.objects.filter(owner=person).order_by("-last_activity_at", "-id")
    keys = [str(key) for key in rows.values_list("pk", flat=True)]
    end = (number - 1) * limit
    return Places(
        number, keys[:limit], keys[end : end + limit], keys[end - 1], keys[end - limit - 1]
    )


def _sessions(count: int, person: Any, sleeper: Any, others: list[Any]) -> Iterator[Session]:
    now = datetime.now(UTC)
    for number in range(count * 5):
        owner = random.choice(others) if number % 4 else person
        if number >= count * 4:
            owner = sleeper
        # Some at the same moment, so that the key decides.
        moment = now - timedelta(seconds=number // 8 * 8)
        yield Session(
            session_id=f"session-{number}",
            owner=owner,
            title=f"About {number}",
            metadata={"model": "large", "tags": ["one", "two"]},
            message_count=10,
            created_at=moment,
            updated_at=moment,
            last_activity_at=moment,
        )


def _batches(rows: Iterator[Session]) -> Iterator[list[Session]]:
    while batch := list(islice(rows, _BATCH)):
        yield batch
