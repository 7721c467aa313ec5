"""Watching, delaying and breaking what reaches the database, on whatever connection."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from django.db import connection as own_connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.test import override_settings


class Traffic:
    """The statements on our tables while it is watched.

    Attributes:
        statements: Their SQL.
        threads: The threads that ran them.
        delay: Seconds that each of them takes longer.
        failing: Told each statement; what it returns is raised instead of running it.
        failing_after: The same, after it ran.
    """

    def __init__(self) -> None:
        self.statements: list[str] = []
        self.threads: set[int] = set()
        self.delay = 0.0
        self.failing: Callable[[str], Exception | None] = lambda sql: None
        self.failing_after: Callable[[str], Exception | None] = lambda sql: None

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if "agent_sessions_" not in sql:
            return execute(sql, params, many, context)
        if (error := self.failing(sql)) is not None:
            raise error
        self.statements.append(sql)
        self.threads.add(threading.get_ident())
        time.sleep(self.delay)
        result = execute(sql, params, many, context)
        if (error := self.failing_after(sql)) is not None:
            raise error
        return result

    def taken(self) -> list[str]:
        """Returns what was run since it was asked last."""
        taken, self.statements = self.statements, []
        return taken


_watched: Traffic | None = None


@contextmanager
def setup(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """What ``CONNECTION_SETUP`` enters around work on the bridge's own connections."""
    with nullcontext() if _watched is None else connection.execute_wrapper(_watched):
        yield


@contextmanager
def watched() -> Iterator[Traffic]:
    """Watches this thread's connection and all of the bridge's."""
    global _watched
    _watched = traffic = Traffic()
    setting = {"CONNECTION_SETUP": f"{__name__}.setup"}
    try:
        with override_settings(AGENT_SESSIONS=setting), own_connection.execute_wrapper(traffic):
            yield traffic
    finally:
        _watched = None
