"""Rewrite the files of a database, so that deleted and redacted content is in none of them."""

from __future__ import annotations

from collections.abc import Iterator

from django.apps import apps
from django.db import connections, router
from django.db.backends.base.base import BaseDatabaseWrapper

from django_agent_sessions.db.vendors import database_vendor
from django_agent_sessions.exceptions import ConfigurationError
from django_agent_sessions.models.content_columns import content_models

from . import mysql, postgresql, sqlite
from .steps import Options, Section, Step

__all__ = ["Options", "Section", "Step", "run", "scrub_sections"]

_SECTIONS = {
    "mariadb": mysql.mariadb_sections,
    "mysql": mysql.mysql_sections,
    "postgresql": postgresql.postgresql_sections,
    "sqlite": sqlite.sqlite_sections,
}


def scrub_sections(using: str, options: Options) -> list[Section]:
    """Return what has to be done in a database, in order; reads the server's settings only."""
    connection = connections[using]
    vendor = database_vendor(connection)
    if vendor not in _SECTIONS:
        raise ConfigurationError(f"the files of {vendor} databases cannot be scrubbed")
    return _SECTIONS[vendor](connection, _tables(connection), options)


def run(using: str, sections: list[Section]) -> Iterator[tuple[Step, str]]:
    """Run the sections; yield each step that was done, and what it left, which is mostly empty."""
    with connections[using].cursor() as cursor:
        for section in sections:
            yield from section.run(cursor)


def _tables(connection: BaseDatabaseWrapper) -> list[str]:
    """Return this app's tables, and the tables of the project that have content of sessions."""
    ours = apps.get_app_config("agent_sessions").get_models()
    models = dict.fromkeys([*ours, *content_models()])
    return [
        connection.ops.quote_name(model._meta.db_table)
        for model in models
        if model._meta.managed and router.allow_migrate_model(connection.alias, model)
    ]
