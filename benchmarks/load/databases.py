"""A database of this run alone: made before it, dropped after it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, LiteralString

import psycopg
from django.contrib.auth import get_user_model
from django.contrib.auth.hashers import make_password
from django.core.management import call_command
from django.db import connection, connections
from psycopg import sql

from .client import PASSWORD


@contextmanager
def prepared(name: str, vendor: str) -> Iterator[None]:
    """Makes it and its tables."""
    if vendor == "postgresql":
        _administrate("CREATE DATABASE {}", name)
    try:
        call_command("migrate", verbosity=0)
        call_command("createcachetable", verbosity=0)
        yield
    finally:
        connections.close_all()
        if vendor == "postgresql":
            _administrate("DROP DATABASE IF EXISTS {} WITH (FORCE)", name)


def make_people(names: list[str]) -> list[int]:
    """Makes users who can log in."""
    model = get_user_model()
    # One salt for all: it is asked of none of them to be secret.
    password = make_password(PASSWORD)
    made = model.objects.bulk_create(model(username=each, password=password) for each in names)
    return [each.pk for each in made]


def parameters(name: str) -> dict[str, Any]:
    """How psycopg reaches it."""
    return {
        "host": os.environ.get("PGHOST", "127.0.0.1"),
        "port": os.environ.get("PGPORT", "5432"),
        "user": os.environ.get("PGUSER", "postgres"),
        "password": os.environ.get("PGPASSWORD", ""),
        "dbname": name,
    }


def version() -> str:
    """The server's or library's version."""
    postgresql = connection.vendor == "postgresql"
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version" if postgresql else "SELECT sqlite_version()")
        number = str(cursor.fetchone()[0]).split()[0]
    return f"{'PostgreSQL' if postgresql else 'SQLite'} {number}"


def _administrate(statement: LiteralString, name: str) -> None:
    with psycopg.connect(**parameters("postgres"), autocommit=True) as administering:
        administering.execute(sql.SQL(statement).format(sql.Identifier(name)))
