"""Recognize the end of an event loop, which cancels the tasks that are not awaited."""

from __future__ import annotations

import asyncio
import logging
import threading
from types import CodeType
from typing import Any

from asgiref.sync import AsyncToSync

from django_agent_sessions.db import thread_frames

logger = logging.getLogger("django_agent_sessions")


def _find_cancelling() -> list[tuple[CodeType, str]]:
    """Return the functions that cancel a loop's tasks at its end, and their variables of tasks."""
    found: list[tuple[CodeType, str]] = []
    cancel: Any = getattr(asyncio.runners, "_cancel_all_tasks", None)
    if "to_cancel" in getattr(getattr(cancel, "__code__", None), "co_varnames", ()):
        found.append((cancel.__code__, "to_cancel"))
    else:
        logger.error(
            "this release of Python has no asyncio.runners._cancel_all_tasks: a run whose event "
            "loop ends before it looks like a cancelled one, without an error"
        )
    if hasattr(AsyncToSync, "_run_event_loop"):
        # asgiref before 3.9 does not use asyncio.run.
        found.append((AsyncToSync._run_event_loop.__code__, "tasks"))
    return found


_CANCELLING = _find_cancelling()


def is_loop_ending() -> bool:
    """Return whether what the running loop was started for has ended, and its tasks are cancelled.

    To be called when a task is cancelled: the caller's stack tells this from other cancellations.
    """
    thread = threading.get_ident()
    return any(
        tasks
        for code, name in _CANCELLING
        for tasks in thread_frames.local_variables(thread, code, name)
    )
