"""Deleting many sessions, or a very large one: how long each transaction lasts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection

from django_agent_sessions.models import Session, SessionAgent, SessionMessage
from django_agent_sessions.store import SessionStore

READ_ELSEWHERE = 100


def delete_oldest(count: int) -> dict[str, Any]:
    """Deletes the oldest sessions, but for the first ones, which are read elsewhere."""
    keys = Session.objects.order_by("pk").values_list("pk", flat=True)
    first, stop = keys[READ_ELSEWHERE], keys[READ_ELSEWHERE + count]
    return _measured(lambda: Session.objects.filter(pk__gte=first, pk__lt=stop).delete()[1])


def delete_large(count: int) -> dict[str, Any]:
    """Makes a session of that many messages, and deletes it."""
    store = SessionStore()
    session = store.open(f"large-{time.time()}")
    agent = store.agents.open(session)
    said = {"role": "user", "content": [{"text": "x" * 380}]}
    SessionMessage.objects.bulk_create(
        (
            SessionMessage(
                session_id=session.id,
                agent_id=agent.id,
                message_id=number,
                message=said,
                role="user",
                text="x" * 380,
            )
            for number in range(count)
        ),
        batch_size=2_000,
    )
    with connection.cursor() as cursor:
        cursor.execute(f"ANALYZE {SessionMessage._meta.db_table}")
    assert SessionAgent.objects.filter(pk=agent.id).exists()
    return _measured(lambda: Session.objects.get(pk=session.id).delete()[1])


def _measured(delete: Any) -> dict[str, Any]:
    started = time.perf_counter()
    with timed_transactions() as lasted:
        rows = delete()
    return {"rows": rows, "seconds": time.perf_counter() - started, "transactions": lasted}


@contextmanager
def timed_transactions() -> Iterator[list[float]]:
    """Times each transaction from its beginning to its commit: no lock of it is held longer."""
    lasted: list[float] = []
    begun = [0.0]
    switch: Any = connection.set_autocommit

    def set_autocommit(autocommit: bool, *args: Any, **kwargs: Any) -> None:
        if not autocommit:
            begun[0] = time.perf_counter()
        switch(autocommit, *args, **kwargs)
        if autocommit:
            lasted.append(time.perf_counter() - begun[0])

    timed: Any = connection
    timed.set_autocommit = set_autocommit
    try:
        yield lasted
    finally:
        timed.set_autocommit = switch
