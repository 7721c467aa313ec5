"""The measured databases: one on each server or in a file, made before and dropped after."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import psutil
from django.core.management import call_command
from django.db import connections
from django.test.utils import override_settings

from . import postgresql, settings


@contextmanager
def prepared(alias: str) -> Iterator[None]:
    """Create a database, migrate it and let the app use it; drop it at the end."""
    made = postgresql.database(settings.NAME) if alias == "postgresql" else nullcontext()
    with made, used(alias):
        try:
            call_command("migrate", database=alias, verbosity=0)
            yield
        finally:
            connections[alias].close()


def used(alias: str) -> Any:
    """Let the app use a database that is there."""
    return override_settings(AGENT_SESSIONS={"DATABASE": alias})


def postgresql_parameters() -> dict[str, Any]:
    """Return the arguments by which psycopg reaches the measured database."""
    return postgresql.parameters(settings.NAME)


def postgresql_url(scheme: str = "postgresql+asyncpg") -> str:
    """Return the measured database as a URL, by default SQLAlchemy's."""
    given = postgresql_parameters()
    user = f"{given['user']}:{given['password']}"
    return f"{scheme}://{user}@{given['host']}:{given['port']}/{settings.NAME}"


def file(name: str) -> str:
    """Return the path of a file, or of a directory, for a store of files."""
    return os.path.join(settings.DIRECTORY, name)


def table_size(names: Sequence[str]) -> int:
    """Return the bytes of tables with their indexes on PostgreSQL."""
    return _number(
        "SELECT sum(pg_total_relation_size(name::regclass)) FROM unnest(%s::text[]) name",
        [list(names)],
    )


def file_size(path: str) -> int:
    """Return the bytes in use of an SQLite file, its write-ahead log included."""
    with closing(sqlite3.connect(path)) as connection:
        pages, free, size = (
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        )
    return int((pages - free) * size)


def directory_size(path: str) -> int:
    """Return the bytes that the files of a directory take on the disk, in whole blocks."""
    return sum(found.stat().st_blocks * 512 for found in Path(path).rglob("*") if found.is_file())


def logged() -> int:
    """Return the position of PostgreSQL's write-ahead log, in bytes."""
    return _number("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")


def file_output() -> int | None:
    """Return the bytes written to files by this process; None if the system counts none."""
    try:
        return int(psutil.Process().io_counters().write_chars)
    except (AttributeError, OSError):
        return None


def settle(alias: str) -> None:
    """Give PostgreSQL's planner the statistics that it has of a database in use."""
    if alias == "postgresql":
        with postgresql.connect(settings.NAME) as connection:
            connection.execute("VACUUM ANALYZE")


def version(alias: str) -> str:
    """Return the name and the version of the server or library, for the report."""
    connection = connections[alias]
    server = connection.vendor == "postgresql"
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version" if server else "SELECT sqlite_version()")
        number = str(cursor.fetchone()[0]).split()[0]
    return f"{'PostgreSQL' if server else 'SQLite'} {number}"


def _number(query: Any, parameters: Sequence[Any] = ()) -> int:
    with postgresql.connect(settings.NAME) as connection:
        row = connection.execute(query, parameters).fetchone()
    return 0 if row is None else int(row[0])
