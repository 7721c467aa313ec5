"""Databases of this process alone: made before the measurement, dropped after it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from django.core.management import call_command
from django.db import connections
from django.test.utils import override_settings
from psycopg import sql

from . import settings


@contextmanager
def prepared(alias: str) -> Iterator[None]:
    """Makes a database, migrates it and lets the app use it; drops it at the end.

    Args:
        alias: ``sqlite`` or ``postgresql``.
    """
    if alias == "postgresql":
        _administer("CREATE DATABASE {}")
    try:
        with override_settings(AGENT_SESSIONS={"DATABASE": alias}):
            call_command("migrate", database=alias, verbosity=0)
            yield
    finally:
        connections[alias].close()
        if alias == "postgresql":
            # The app's own threads keep their connections for a moment.
            _administer("DROP DATABASE IF EXISTS {} WITH (FORCE)")


def postgresql_parameters() -> dict[str, Any]:
    """The measured database, as psycopg takes it."""
    return {**_server(), "dbname": settings.NAME}


def postgresql_url() -> str:
    """The measured database, as SQLAlchemy takes it."""
    given = settings.DATABASES["postgresql"]
    user = f"{given['USER']}:{given['PASSWORD']}"
    return f"postgresql+asyncpg://{user}@{given['HOST']}:{given['PORT']}/{settings.NAME}"


def sqlite_file(name: str) -> str:
    """Names a file for a store of SQLite files."""
    return os.path.join(settings.DIRECTORY, name)


def table_size(names: Sequence[str]) -> int:
    """Measures tables with their indexes on PostgreSQL.

    Args:
        names: The tables.

    Returns:
        Bytes.
    """
    query = "SELECT sum(pg_total_relation_size(name::regclass)) FROM unnest(%s::text[]) name"
    with psycopg.connect(**postgresql_parameters()) as connection:
        row = connection.execute(query, [list(names)]).fetchone()
    return 0 if row is None else int(row[0])


def settle(alias: str) -> None:
    """Gives PostgreSQL's planner the statistics that it has of a database in use.

    Args:
        alias: The database that was filled.
    """
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
