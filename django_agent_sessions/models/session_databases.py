"""The databases of a project that have tables of this app."""

from __future__ import annotations

from django.core.exceptions import ImproperlyConfigured
from django.db import Error, connections

from .sessions import Session


def databases_with_sessions(first: str) -> tuple[list[str], list[str]]:
    """Return the databases that may contain sessions, and those that cannot be queried.

    ``first`` is known to have the tables, and comes first. A replica, which ``TEST["MIRROR"]``
    names in ``DATABASES``, is no other database.
    """
    queried, failed = [first], []
    for alias in connections:
        if alias == first or connections[alias].settings_dict["TEST"].get("MIRROR"):
            continue
        try:
            if connections[alias].vendor == "unknown":
                # An alias in DATABASES without ENGINE.
                continue
            tables = connections[alias].introspection.table_names()
        except (Error, ImproperlyConfigured):
            failed.append(alias)
            continue
        if Session._meta.db_table in tables:
            queried.append(alias)
    return queried, failed
