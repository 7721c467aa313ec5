"""Databases of the measurement on the server of PGHOST, PGPORT, PGUSER and PGPASSWORD."""

from __future__ import annotations

import os
from typing import Any, LiteralString

import psycopg
from psycopg import sql


def name_of(messages: int) -> str:
    """Names the database with that many messages; a later run finds it again."""
    return f"agent_sessions_scale_{messages}"


def create(name: str) -> None:
    """Makes an empty database."""
    _administrate("CREATE DATABASE {}", name)


def drop(name: str) -> None:
    """Drops a database, whoever is connected to it."""
    _administrate("DROP DATABASE IF EXISTS {} WITH (FORCE)", name)


def connect(name: str) -> psycopg.Connection[Any]:
    """Opens a connection of the measurement's own, which commits by itself."""
    return psycopg.connect(
        host=os.environ.get("PGHOST", "127.0.0.1"),
        port=os.environ.get("PGPORT", "5432"),
        user=os.environ.get("PGUSER", "postgres"),
        password=os.environ.get("PGPASSWORD", ""),
        dbname=name,
        autocommit=True,
    )


def _administrate(statement: LiteralString, name: str) -> None:
    with connect("postgres") as connection:
        connection.execute(sql.SQL(statement).format(sql.Identifier(name)))
