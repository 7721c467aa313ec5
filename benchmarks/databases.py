"""Databases of this process alone: made before the measurement, dropped after it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
from django.core.management import call_command
from django.db import connections
from django.test.utils import override_settings
from psycopg import sql

from . import settings


@contextmanager
def prepared(alias: str) -> Iterator[None]:
    """Makes a database, migrates it and lets the app use it; drops it at the end."""
    if alias == "postgresql":
        _administer("CREATE DATABASE {}")
    try:
        with used(alias):
            call_command("migrate", database=alias, verbosity=0)
            yield
    finally:
        connections[alias].close()
        if alias == "postgresql":
            # The app's own threads keep their connections for a moment.
            _administer("DROP DATABASE IF EXISTS {} WITH (FORCE)")


def used(alias: str) -> Any:
    """Lets the app use a database that is there."""
    return override_settings(AGENT_SESSIONS={"DATABASE": alias})


def postgresql_parameters() -> dict[str, Any]:
    """The measured database, as psycopg takes it."""
    return {**_server(), "dbname": settings.NAME}


def postgresql_url(scheme: str = "postgresql+asyncpg") -> str:
    """The measured database, as a URL."""
    given = settings.DATABASES["postgresql"]
    user = f"{given['USER']}:{given['PASSWORD']}"
    return f"{scheme}://{user}@{given['HOST']}:{given['PORT']}/{settings.NAME}"


def file(name: str) -> str:
    """Names a file, or a directory, for a store of files."""
    return os.path.join(settings.DIRECTORY, name)


def table_size(names: Sequence[str]) -> int:
    """Measures tables with their indexes on PostgreSQL."""
    return _number(
        "SELECT sum(pg_total_relation_size(name::regclass)) FROM unnest(%s::text[]) name",
        [list(names)],
    )


def file_size(path: str) -> int:
    """Measures what is used of an SQLite file, its write-ahead log included."""
    with closing(sqlite3.connect(path)) as connection:
        figures = {
            name: connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        }
    return int((figures["page_count"] - figures["freelist_count"]) * figures["page_size"])


def directory_size(path: str) -> int:
    """Measures what the files of a directory take on the disk."""
    return sum(found.stat().st_blocks * 512 for found in Path(path).rglob("*") if found.is_file())


def logged() -> int:
    """Tells how far PostgreSQL's write-ahead log has come, in bytes."""
    return _number("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")


def file_output() -> int | None:
    """Tells how many bytes this process has written to files, where the system can say it."""
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError:
        return None
    return int(dict(line.split(": ") for line in lines)["wchar"])


def settle(alias: str) -> None:
    """Gives PostgreSQL's planner the statistics that it has of a database in use."""
    if alias == "postgresql":
        with psycopg.connect(**postgresql_parameters(), autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")


def version(alias: str) -> str:
    """The server's or library's version, for the report."""
    connection = connections[alias]
    query = "SHOW server_version" if alias == "postgresql" else "SELECT sqlite_version()"
    with connection.cursor() as cursor:
        cursor.execute(query)
        number = str(cursor.fetchone()[0]).split()[0]
    return f"{'PostgreSQL' if alias == 'postgresql' else 'SQLite'} {number}"


def _number(query: str, parameters: Sequence[Any] = ()) -> int:
    with psycopg.connect(**postgresql_parameters()) as connection:
        row = connection.execute(query, parameters).fetchone()
    return 0 if row is None else int(row[0])


def _server() -> dict[str, Any]:
    given = settings.DATABASES["postgresql"]
    return {
        "host": given["HOST"],
        "port": given["PORT"],
        "user": given["USER"],
        "password": given["PASSWORD"],
    }


def _administer(statement: str) -> None:
    with psycopg.connect(**_server(), dbname="postgres", autocommit=True) as connection:
        connection.execute(sql.SQL(statement).format(sql.Identifier(settings.NAME)))
