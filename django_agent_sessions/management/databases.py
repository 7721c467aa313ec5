"""The database option of commands."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import connections

from django_agent_sessions.db import bridge
from django_agent_sessions.models import Session


def add_database(parser: CommandParser) -> None:
    """Add the option ``--database``."""
    parser.add_argument(
        "--database",
        choices=tuple(connections),
        help="The database alias; by default the one that stores the sessions.",
    )


def get_database(options: dict[str, Any]) -> str:
    """Return the alias that ``--database`` sets; require that it has our tables."""
    alias = bridge.database(options["database"])
    # A query of a missing table would break an open transaction. The tables may be views.
    tables = connections[alias].introspection.table_names(include_views=True)
    if Session._meta.db_table not in tables:
        raise CommandError(
            f"database {alias!r} has no tables of django_agent_sessions: run migrate, or use "
            "another --database"
        )
    return alias
