"""Empty SQLite's write-ahead log after rows with content were deleted, whichever code did it."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from django_agent_sessions.db.sqlite_secure_delete import empty_log_after_commit
from django_agent_sessions.models.content_columns import tables_with_content

_DELETION = re.compile(r'\s*DELETE\s+FROM\s+"?(\w+)', re.IGNORECASE)

_PATIENCE = 0.1
"""Seconds that a deletion waits for readers of the log; a redaction waits longer."""


def watch(connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    """Watch the statements of a new SQLite connection; a receiver of ``connection_created``.

    Rows are deleted by the store, by querysets, by cascades from a user and by SQL of projects. A
    signal would make Django read each row before it deletes it, and SQL sends none.
    """
    if connection.vendor == "sqlite" and watch_deletion not in connection.execute_wrappers:
        # First, because the end of ``execute_wrapper()`` removes the last one.
        connection.execute_wrappers.insert(0, watch_deletion)


def watch_deletion(
    execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]
) -> Any:
    """Run a statement; after a deletion of content, empty the log."""
    result = execute(sql, params, many, context)
    found = _DELETION.match(sql)
    if found and found[1] in _tables():
        empty_log_after_commit(context["connection"].alias, _PATIENCE)
    return result


@functools.cache
def _tables() -> frozenset[str]:
    return tables_with_content()
