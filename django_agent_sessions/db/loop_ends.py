"""Recognize the end of an event loop, which cancels the tasks that are not awaited."""

from __future__ import annotations

import asyncio
import threading

from asgiref.sync import AsyncToSync

from django_agent_sessions.db import thread_frames

_CANCELLING = [(asyncio.runners._cancel_all_tasks.__code__, "to_cancel")]  # type: ignore[attr-defined] # asyncio's own
if hasattr(AsyncToSync, "_run_event_loop"):
    # asgiref before 3.9 does not use asyncio.run.
    _CANCELLING.append((AsyncToSync._run_event_loop.__code__, "tasks"))


def is_loop_ending() -> bool:
    """Return whether what the running loop was started for has ended, and its tasks are cancelled.

    To be called when a task is cancelled: the caller's stack tells this from other cancellations.
    """
    thread = threading.get_ident()
    return any(
        tasks
        for code, name in _CANCELLING
        for (tasks,) in thread_frames.local_variables(thread, code, name)
    )
