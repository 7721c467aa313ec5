"""Search columns, files and errors for text that must not be there."""

from __future__ import annotations

from pathlib import Path

from django.apps import apps
from django.db import DEFAULT_DB_ALIAS, connections


def columns_containing(text: str, *, using: str = DEFAULT_DB_ALIAS) -> list[str]:
    """Return the columns of this app's tables that contain a text.

    Args:
        text: ASCII letters and digits, which no column escapes.
        using: The alias of the database.

    Returns:
        The ``table.column`` of each column that contains it in any row.
    """
    columns = []
    with connections[using].cursor() as cursor:
        for model in apps.get_app_config("agent_sessions").get_models():
            quote = connections[using].ops.quote_name
            for field in model._meta.concrete_fields:
                table, column = model._meta.db_table, str(field.column)
                cursor.execute(
                    f"SELECT {quote(column)} FROM {quote(table)}"  # noqa: S608 - our own names
                )
                if any(text in _as_text(value) for (value,) in cursor.fetchall()):
                    columns.append(f"{table}.{column}")
    return columns


def _as_text(value: object) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("latin-1")
    return str(value)


def files_containing(text: str, *, using: str = DEFAULT_DB_ALIAS) -> list[str]:
    """Return the files of an SQLite database that contain a text, in free pages and logs too.

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
    return [file.name for file in files if file.is_file() and text.encode() in file.read_bytes()]


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
