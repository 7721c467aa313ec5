"""Recognize the end of an event loop, which cancels the tasks that are not awaited."""

from __future__ import annotations

import asyncio
import threading

from django_agent_sessions.db import thread_frames

_CLOSE = asyncio.Runner.close.__code__


def is_loop_ending() -> bool:
    """Return whether what the running loop was started for has ended, and its tasks are cancelled.

    To be called when a task is cancelled: the caller's stack tells this from other cancellations.
    ``asyncio.run`` and asgiref's ``async_to_sync`` end their loops by :meth:`asyncio.Runner.close`.
    """
    return bool(thread_frames.local_variables(threading.get_ident(), _CLOSE, "self"))
