"""Operations on all sessions that a list's filters match: export, hold, release, redact, delete.

They run in the background, in short transactions: in a thread of the web process, by
``manage.py agent_sessions_run_operations``, or in a task of a queue::

    from celery import shared_task

    from django_agent_sessions.operations import run_waiting


    @shared_task
    def run_operations():
        run_waiting(seconds=600)

The cursor of an operation moves in the transaction of its work, so that an operation that was
killed continues without doing a session twice or leaving one out.
"""

from __future__ import annotations

from .control import cancel, resume, start
from .in_process import run_in_thread
from .runner import run, run_waiting

__all__ = [
    "cancel",
    "resume",
    "run",
    "run_in_thread",
    "run_waiting",
    "start",
]
