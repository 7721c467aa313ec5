"""The database that a command works in."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import connections

from django_agent_sessions import bridge
from django_agent_sessions.models import Session


def add_database(parser: CommandParser) -> None:
    """Adds the option that says in which database a command works."""
    parser.add_argument(
        "--database",
        choices=tuple(connections),
        help="The alias of the database; by default the one of the sessions.",
    )


def database_of(options: dict[str, Any]) -> str:
    """Tells which database a command works in, by its option ``--database``."""
    alias = bridge.database(options["database"])
    # The names of the tables, because asking one that is not there would break a transaction. A
    # project may have made views of them.
    tables = connections[alias].introspection.table_names(include_views=True)
    if Session._meta.db_table not in tables:
        raise CommandError(
            f"the database {alias!r} has no tables of django_agent_sessions: migrate it, or name "
            "another alias"
        )
    return alias
