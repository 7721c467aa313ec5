"""What tells apart the tenants of a project: a database or a schema for each."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeAlias

from django.db import connections

Tenant: TypeAlias = tuple[Hashable, ...]
"""What identifies the database and the schema of a connection."""


def tenant_of(using: str) -> Tenant:
    """Return whose database and schema this thread's connection uses, without a statement.

    The schema is ``connection.schema_name``: django-tenants sets it, and projects that set
    PostgreSQL's ``search_path`` themselves have to.
    """
    connection = connections[using]
    get = connection.settings_dict.get
    schema = getattr(connection, "schema_name", None)
    return using, get("HOST"), get("PORT"), get("NAME"), schema
