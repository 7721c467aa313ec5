"""What is called after a write to a session is committed."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any, TypeAlias
from uuid import UUID

from django.apps import apps
from django.db import connections, transaction
from django.dispatch import Signal

from django_agent_sessions import signals
from django_agent_sessions.db import notifications
from django_agent_sessions.values.run_context import SessionWrite, WriteKind, current_run

logger = logging.getLogger(__name__)

Receiver: TypeAlias = Callable[[str], Callable[[SessionWrite], None] | None]

receivers: list[Receiver] = [notifications.notifier]
"""Each takes a database's alias, and returns what to call after a write to it, or None."""


def on_written(
    using: str, session: UUID, kind: WriteKind, *, agent: UUID | None = None, added: int = 0
) -> None:
    """Call the receivers: after the commit of the present transaction, or now if there is none.

    Django logs an error of a receiver; it changes nothing for the writer. ``added`` is the number
    of new messages.
    """
    if added:
        send_after_commit(
            signals.messages_added, using, session=session, agent=agent, count=added, kind=kind
        )
    elif kind == "redact":
        send_after_commit(signals.session_redacted, using, session=session)
    calls = [call for receiver in receivers if (call := _call_of(receiver, using)) is not None]
    if not calls or not _is_commit_known(using):
        return
    write = SessionWrite(using, session, kind, current_run())

    def call_receivers() -> None:
        for call in calls:
            call(write)

    transaction.on_commit(call_receivers, using=using, robust=True)


def send_after_commit(signal: Signal, using: str, **arguments: Any) -> None:
    """Send a signal after the commit of the present transaction, or now if there is none."""
    if signal.receivers and _is_commit_known(using):
        sender = apps.get_model("agent_sessions", "Session")
        send = functools.partial(signal.send_robust, sender, using=using, **arguments)
        transaction.on_commit(send, using=using, robust=True)


def _is_commit_known(using: str) -> bool:
    """Return whether Django knows when the present transaction is committed.

    Without autocommit and ``atomic()``, only the caller does.
    """
    connection = connections[using]
    return connection.in_atomic_block or connection.autocommit


def _call_of(receiver: Receiver, using: str) -> Callable[[SessionWrite], None] | None:
    try:
        return receiver(using)
    except Exception:
        # The write is committed, and must not look failed.
        logger.exception("a receiver of writes failed")
        return None
