"""A thread of an answer's own for what it does by ``sync_to_async``."""

from __future__ import annotations

from contextvars import Context, copy_context

from asgiref.sync import SyncToAsync, ThreadSensitiveContext

from django_agent_sessions.rest.streaming import close_idle_connections


class OwnThread:
    """The context of a task that does not share its request's thread.

    By default ``sync_to_async`` does all of a request's work in one thread: a tool that takes long
    would keep the response waiting, and what comes after it.
    """

    def __init__(self) -> None:
        # Entering one inside of the request's would change nothing.
        self._sensitive = ThreadSensitiveContext()
        self.context = Context()
        for variable, value in copy_context().items():
            self.context.run(variable.set, value)
        self.context.run(SyncToAsync.thread_sensitive_context.set, self._sensitive)

    def end(self) -> None:
        """Lets the thread go when it has done its work, without waiting for it."""
        executor = SyncToAsync.context_to_thread_executor.pop(self._sensitive, None)
        if executor is not None:
            executor.submit(close_idle_connections)
            executor.shutdown(wait=False)
