"""Looking for what must not be anywhere: in columns, in files, in errors."""

from __future__ import annotations

from pathlib import Path

from django.apps import apps
from django.db import DEFAULT_DB_ALIAS, connections


def columns_holding(text: str, *, using: str = DEFAULT_DB_ALIAS) -> list[str]:
    """Looks for a text in every column of every table of this app.

    Args:
        text: ASCII letters and digits, which no column escapes.
        using: The alias of the database.

    Returns:
        The ``table.column`` of each column that holds it in some row.
    """
    found = []
    with connections[using].cursor() as cursor:
        for model in apps.get_app_config("agent_sessions").get_models():
            quote = connections[using].ops.quote_name
            for field in model._meta.concrete_fields:
                table, column = model._meta.db_table, str(field.column)
                cursor.execute(
                    f"SELECT {quote(column)} FROM {quote(table)}"  # noqa: S608 - our own names
                )
                if any(text in _shown(value) for (value,) in cursor.fetchall()):
                    found.append(f"{table}.{column}")
    return found


def _shown(value: object) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("latin-1")
    return str(value)


def files_holding(text: str, *, using: str = DEFAULT_DB_ALIAS) -> list[str]:
    """Looks for a text in the bytes of an SQLite database, free pages and logs included.

    Args:
        text: ASCII letters and digits.
        using: The alias of the database.

    Returns:
        The names of the files that hold it; always empty where there is no file to look into.
    """
    connection = connections[using]
    if connection.vendor != "sqlite":
        return []
    database = Path(str(connection.settings_dict["NAME"]))
    files = [database.with_name(database.name + end) for end in ("", "-wal", "-journal")]
    return [file.name for file in files if file.is_file() and text.encode() in file.read_bytes()]


def everything_said(error: BaseException) -> str:
    """Collects all that a log or an error page could show of an error.

    Args:
        error: What was raised.

    Returns:
        Its message, ``repr`` and notes, and those of its causes and contexts.
    """
    said: list[str] = []
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        current = waiting.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        said += [str(current), repr(current), *getattr(current, "__notes__", ())]
        waiting += [current.__cause__, current.__context__]
    return "\n".join(said)
