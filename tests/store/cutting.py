"""Connections that are really cut, on the client's side, before or after the work was done."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import InterfaceError, connection


def user(text: str) -> dict:
    return {"role": "user", "content": text}


def cut_the_wire() -> None:
    """Breaks the connection as a network does: neither side is told."""
    if connection.vendor != "sqlite":
        with socket.socket(fileno=os.dup(connection.connection.fileno())) as wire:
            wire.shutdown(socket.SHUT_RDWR)


@contextmanager
def cut(verb: str, *, done: bool) -> Iterator[None]:
    """Cuts the connection at the first statement that begins with a verb.

    Args:
        verb: Such as ``INSERT``.
        done: Whether the statement is done before; else it never reaches the server.
    """
    met: list[str] = []

    def execute_and_cut(execute: Callable[..., Any], sql: str, params: Any, many: bool, context):
        if met or not sql.removeprefix("WITH written AS (").startswith(verb):
            return execute(sql, params, many, context)
        met.append(sql)
        if done:
            execute(sql, params, many, context)
            if context["cursor"].description:
                # SQLite does the work as its rows are fetched.
                context["cursor"].fetchall()
        cut_the_wire()
        if not done and connection.vendor != "sqlite":
            return execute(sql, params, many, context)
        raise InterfaceError("the answer did not arrive")

    with connection.execute_wrapper(execute_and_cut):
        yield
    assert met


@contextmanager
def commit_lost(then: Callable[[], Any] = lambda: None) -> Iterator[None]:
    """Cuts the connection after the first commit is done and before its answer is there.

    Args:
        then: What happens at that moment.
    """
    mine: Any = connection
    raw_commit = mine._commit

    def commit_and_cut() -> None:
        mine._commit = raw_commit
        raw_commit()
        cut_the_wire()
        then()
        raise InterfaceError("the answer did not arrive")

    mine._commit = commit_and_cut
    try:
        yield
    finally:
        mine._commit = raw_commit
