"""Databases on the PostgreSQL server that PGHOST, PGPORT, PGUSER and PGPASSWORD name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, LiteralString

import psycopg
from psycopg import sql


def parameters(name: str) -> dict[str, Any]:
    """Return the arguments by which psycopg reaches a database."""
    return {
        "host": os.environ.get("PGHOST", "127.0.0.1"),
        "port": os.environ.get("PGPORT", "5432"),
        "user": os.environ.get("PGUSER", "postgres"),
        "password": os.environ.get("PGPASSWORD", ""),
        "dbname": name,
    }


def entry(name: str, **more: Any) -> dict[str, Any]:
    """Return a database as an entry of Django's ``DATABASES``."""
    given = parameters(name)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": given.pop("dbname"),
        **{key.upper(): value for key, value in given.items()},
        **more,
    }


def connect(name: str = "postgres") -> psycopg.Connection[Any]:
    """Open a connection that commits each statement."""
    return psycopg.connect(**parameters(name), autocommit=True)


@contextmanager
def database(name: str) -> Iterator[None]:
    """Create an empty database, and drop it at the end."""
    create(name)
    try:
        yield
    finally:
        drop(name)


def create(name: str) -> None:
    """Create an empty database."""
    _run("CREATE DATABASE {}", name)


def drop(name: str) -> None:
    """Drop a database, with the connections that are still open to it."""
    _run("DROP DATABASE IF EXISTS {} WITH (FORCE)", name)


def _run(statement: LiteralString, name: str) -> None:
    with connect() as connection:
        connection.execute(sql.SQL(statement).format(sql.Identifier(name)))
