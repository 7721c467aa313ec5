"""Find columns on MariaDB and MySQL with an unsuitable character set or collation.

A table has the character set that its database had when the table was created. ``utf8mb3`` and
``latin1`` cannot store emoji, so that a message with one is rejected. Ids have a collation of their
own, which converting the whole table replaces.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from django.apps import apps
from django.db import connections, models
from django.db.backends.base.base import BaseDatabaseWrapper

from django_agent_sessions.models import Session
from django_agent_sessions.models.fields import IdField

FULL_CHARSET = "utf8mb4"
"""The character set of MariaDB and MySQL that stores all characters."""


@dataclass
class CharsetReport:
    """Unsuitable character sets and columns, and the statements that convert them."""

    connection: str = ""
    database: str = ""
    columns: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    statements: list[str] = field(default_factory=list)


def inspect_charsets(using: str) -> CharsetReport:
    """Inspect the tables on MariaDB or MySQL; return an empty result for other databases."""
    result = CharsetReport()
    connection = connections[using]
    if connection.vendor != "mysql":
        return result
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@character_set_connection, @@character_set_database")
        connection_charset, database_charset = cursor.fetchone()
        cursor.execute(
            "SELECT table_name, column_name, character_set_name, collation_name"
            " FROM information_schema.columns"
            " WHERE table_schema = DATABASE() AND collation_name IS NOT NULL"
        )
        existing = {(table, name): how for table, name, *how in cursor.fetchall()}
    result.connection = "" if connection_charset == FULL_CHARSET else connection_charset
    if not any(table == Session._meta.db_table for table, _ in existing):
        result.database = "" if database_charset == FULL_CHARSET else database_charset
        return result
    for model in apps.get_app_config("agent_sessions").get_models():
        table = model._meta.db_table
        changes = []
        for text_field in _text_columns(model):
            charset, collation = existing.get((table, text_field.column), (FULL_CHARSET, None))
            exact_collation = text_field.db_parameters(connection).get("collation")
            if charset != FULL_CHARSET:
                result.columns.append(f"{table}.{text_field.column}")
            elif isinstance(text_field, IdField) and collation not in (exact_collation, None):
                result.ids.append(f"{table}.{text_field.column}")
            else:
                continue
            changes.append(_modify_clause(connection, text_field, exact_collation))
        if changes:
            name = connection.ops.quote_name(table)
            result.statements.append(f"ALTER TABLE {name} {', '.join(changes)};")
    return result


def _text_columns(model: type[models.Model]) -> Iterator[models.Field[object, object]]:
    for text_field in model._meta.concrete_fields:
        if isinstance(text_field, models.CharField | models.TextField):
            yield text_field


def _modify_clause(
    connection: BaseDatabaseWrapper, column: models.Field[object, object], collation: str | None
) -> str:
    parts = [
        f"MODIFY {connection.ops.quote_name(str(column.column))} {column.db_type(connection)}",
        f"CHARACTER SET {FULL_CHARSET}",
        f"COLLATE {collation}" if collation else "",
        "NULL" if column.null else "NOT NULL",
        # MODIFY drops a default that it does not repeat; the only one of a text is empty.
        "DEFAULT ''" if column.has_db_default() else "",
    ]
    return " ".join(filter(None, parts))
