"""The database that a command works in."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError
from django.db import connections

from django_agent_sessions import bridge
from django_agent_sessions.models import Session


def database_of(options: dict[str, Any]) -> str:
    """Tells which database a command works in, by its option ``--database``.

    Args:
        options: Those of the command.

    Returns:
        The alias.

    Raises:
        CommandError: That database does not have the tables of the sessions.
    """
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
