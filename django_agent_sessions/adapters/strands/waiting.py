"""Who waits for a Strands agent: the thread that called it synchronously.

``agent("Hello")`` runs the agent's event loop in a fresh thread and blocks the caller until that
thread has ended. This is the proof that the caller's transaction may be joined.
"""

from __future__ import annotations

from strands._async import run_async

from django_agent_sessions import bridge


def register() -> None:
    """Teaches the bridge Strands' way from sync to async."""
    # The executor is made by this very call, and joined before the call returns.
    bridge.register_waiting_call(run_async.__code__, "executor")
