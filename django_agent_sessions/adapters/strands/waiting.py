"""Register Strands' sync calls with the bridge.

``agent("Hello")`` runs the agent's event loop in a new thread and blocks the caller until that
thread has ended, so that the call may join the caller's transaction.
"""

from __future__ import annotations

from strands._async import run_async

from django_agent_sessions.db import bridge


def register() -> None:
    """Register the function that blocks."""
    # The function creates the executor itself, and joins it before it returns.
    bridge.register_waiting_call(run_async.__code__, "executor")
