"""What is called after a write to a session is committed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeAlias
from uuid import UUID

from django.db import connections, transaction

from django_agent_sessions.db import notifications
from django_agent_sessions.values.run_context import SessionWrite, WriteKind, current_run

logger = logging.getLogger(__name__)

Receiver: TypeAlias = Callable[[str], Callable[[SessionWrite], None] | None]

receivers: list[Receiver] = [notifications.notifier]
"""Each takes a database's alias, and returns what to call after a write to it, or None."""


def on_written(using: str, session: UUID, kind: WriteKind) -> None:
    """Call the receivers: after the commit of the present transaction, or now if there is none.

    Django logs an error of a receiver; it changes nothing for the writer.
    """
    calls = [call for receiver in receivers if (call := _call_of(receiver, using)) is not None]
    if not calls:
        return
    connection = connections[using]
    # Without autocommit and `atomic()`, only the caller knows when it commits.
    if not (connection.in_atomic_block or connection.autocommit):
        return
    write = SessionWrite(using, session, kind, current_run())

    def call_receivers() -> None:
        for call in calls:
            call(write)

    transaction.on_commit(call_receivers, using=using, robust=True)


def _call_of(receiver: Receiver, using: str) -> Callable[[SessionWrite], None] | None:
    try:
        return receiver(using)
    except Exception:
        # The write is committed, and must not look failed.
        logger.exception("a receiver of writes failed")
        return None
