"""Run an operation in a thread of the web process."""

from __future__ import annotations

import contextlib
import contextvars
import logging
import threading
from uuid import UUID

from django.db import connections

from django_agent_sessions.db import bridge

from .runner import run

logger = logging.getLogger("django_agent_sessions")


def run_in_thread(operation: UUID, *, using: str) -> threading.Thread:
    """Carry out an operation in a thread of its own, which ends with the process."""
    context = contextvars.copy_context()
    thread = threading.Thread(
        target=context.run,
        args=(_run, operation, using),
        name=f"agent_sessions_operation_{operation}",
        daemon=True,
    )
    thread.start()
    return thread


def _run(operation: UUID, using: str) -> None:
    setup = bridge.connection_setup()
    try:
        with setup(connections[using]) if setup else contextlib.nullcontext():
            run(operation, using=using)
    except Exception:  # nobody waits for the thread: an error of any kind is logged
        logger.exception("Operation %s stopped", operation)
    finally:
        connections.close_all()
