"""A separate ``sync_to_async`` thread for each answer."""

from __future__ import annotations

from contextvars import Context, copy_context

from asgiref.sync import SyncToAsync, ThreadSensitiveContext

from django_agent_sessions.rest.streaming import close_idle_connections


class AnswerThread:
    """The context of a task that does not share the thread of its request.

    By default ``sync_to_async`` runs all sync code of a request in one thread, so that a slow tool
    would delay the response and everything after it.
    """

    def __init__(self) -> None:
        # Not entered: within the context of the request, entering another one has no effect.
        self._sensitive = ThreadSensitiveContext()
        self.context = Context()
        for variable, value in copy_context().items():
            self.context.run(variable.set, value)
        self.context.run(SyncToAsync.thread_sensitive_context.set, self._sensitive)

    def end(self) -> None:
        """Shut down the thread after its last call, without waiting for it."""
        executor = SyncToAsync.context_to_thread_executor.pop(self._sensitive, None)
        if executor is not None:
            executor.submit(close_idle_connections)
            executor.shutdown(wait=False)
