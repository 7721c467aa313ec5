"""Search columns, files and errors for text that must not be there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.apps import apps
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.models import BinaryField, Field, Model

from django_agent_sessions.content import codec
from django_agent_sessions.models.content_field import ContentField
from django_agent_sessions.models.fields import ExactJSONField
from django_agent_sessions.models.stored_text import StoredText

_kept_open: dict[tuple[int, int], int] = {}
"""The file descriptors of databases, by device and inode."""


def columns_containing(text: str, *, using: str = DEFAULT_DB_ALIAS) -> list[str]:
    """Return the columns of this app's tables that contain a text, encrypted or not.

    Args:
        text: ASCII letters and digits, which no column escapes.
        using: The alias of the database.

    Returns:
        The ``table.column`` of each column that contains it in any row.
    """
    return [
        f"{model._meta.db_table}.{field.column}"
        for model in apps.get_app_config("agent_sessions").get_models()
        for field in model._meta.concrete_fields
        if any(text in _as_text(value) for value in _values(model, field, using))
    ]


def _values(model: type[Model], field: Field[Any, Any], using: str) -> Iterator[Any]:
    """Return the stored values of a column, then what those that are encrypted contain."""
    quote = connections[using].ops.quote_name
    table, column = model._meta.db_table, str(field.column)
    with connections[using].cursor() as cursor:
        cursor.execute(f"SELECT {quote(column)} FROM {quote(table)}")  # noqa: S608 - our own names
        yield from (value for (value,) in cursor.fetchall())
    if codec.is_plain():
        return
    rows = model._default_manager.using(using).order_by()
    if isinstance(field, ExactJSONField) and field.is_content:
        yield from rows.values_list(StoredText(field.name), flat=True)
    elif isinstance(field, ContentField):
        yield from rows.values_list(field.name, flat=True)
    elif isinstance(field, BinaryField):
        for key, data in rows.values_list("pk", field.name):
            yield codec.open_bytes(key, f"{table}.{column}", bytes(data))


def _as_text(value: object) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("latin-1")
    return str(value)


def files_containing(text: str, *, using: str = DEFAULT_DB_ALIAS) -> list[str]:
    """Return the files of an SQLite database that contain a text, even in free pages or logs.

    Args:
        text: ASCII letters and digits.
        using: The alias of the database.

    Returns:
        The names of the files that contain it; always empty for other databases.
    """
    connection = connections[using]
    if connection.vendor != "sqlite":
        return []
    database = Path(str(connection.settings_dict["NAME"]))
    files = [database.with_name(database.name + end) for end in ("", "-wal", "-journal")]
    return [file.name for file in files if file.is_file() and text.encode() in database_bytes(file)]


def database_bytes(file: Path) -> bytes:
    """Read a file of an SQLite database without losing the locks of this process.

    POSIX drops all locks that a process has on a file as soon as the process closes the file
    anywhere. Another process would then take the database for unused and delete its write-ahead
    log. So the database is opened once and kept open; the logs have no such locks.

    Args:
        file: The database, its write-ahead log or its journal.

    Returns:
        All bytes, including those of free pages.

    Raises:
        OSError: The file cannot be read.
    """
    if file.name.endswith(("-wal", "-journal")) or not hasattr(os, "pread"):
        return file.read_bytes()
    found = file.stat()
    key = (found.st_dev, found.st_ino)
    if key not in _kept_open:
        _kept_open[key] = os.open(file, os.O_RDONLY)
    return os.pread(_kept_open[key], found.st_size, 0)


def error_texts(error: BaseException) -> str:
    """Return every text of an error that a log or an error page could show.

    Args:
        error: The error that was raised.

    Returns:
        Its message, ``repr`` and notes, and those of its causes and contexts.
    """
    texts: list[str] = []
    pending: list[BaseException | None] = [error]
    seen: set[int] = set()
    while pending:
        current = pending.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        texts += [str(current), repr(current), *getattr(current, "__notes__", ())]
        pending += [current.__cause__, current.__context__]
    return "\n".join(texts)
