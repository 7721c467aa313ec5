"""Which letters a database has room for, and how it compares ids.

A table of MariaDB or MySQL is in the character set that its database had when the table was made.
In ``utf8mb3`` and ``latin1`` there is no emoji, and a message with one is refused. Ids have a
collation of their own, which a conversion of the whole table takes away.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from django.apps import apps
from django.db import connections, models
from django.db.backends.base.base import BaseDatabaseWrapper

from .fields import IdField
from .models import Session

EVERY_LETTER = "utf8mb4"
"""The character set of MariaDB and MySQL that has them all."""


@dataclass
class Charsets:
    """What is not as it should be."""

    connection: str = ""
    database: str = ""
    columns: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    statements: list[str] = field(default_factory=list)


def look(using: str) -> Charsets:
    """Asks MariaDB or MySQL; of other databases there is nothing to tell."""
    found = Charsets()
    connection = connections[using]
    if connection.vendor != "mysql":
        return found
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@character_set_connection, @@character_set_database")
        spoken, default = cursor.fetchone()
        cursor.execute(
            "SELECT table_name, column_name, character_set_name, collation_name"
            " FROM information_schema.columns"
            " WHERE table_schema = DATABASE() AND collation_name IS NOT NULL"
        )
        there = {(table, column): how for table, column, *how in cursor.fetchall()}
    found.connection = "" if spoken == EVERY_LETTER else spoken
    if not any(table == Session._meta.db_table for table, _ in there):
        found.database = "" if default == EVERY_LETTER else default
        return found
    for model in apps.get_app_config("agent_sessions").get_models():
        table = model._meta.db_table
        changes = []
        for each in _texts(model):
            charset, collation = there.get((table, each.column), (EVERY_LETTER, None))
            exact = each.db_parameters(connection).get("collation")
            if charset != EVERY_LETTER:
                found.columns.append(f"{table}.{each.column}")
            elif isinstance(each, IdField) and collation not in (exact, None):
                found.ids.append(f"{table}.{each.column}")
            else:
                continue
            changes.append(_change(connection, each, exact))
        if changes:
            name = connection.ops.quote_name(table)
            found.statements.append(f"ALTER TABLE {name} {', '.join(changes)};")
    return found


def _texts(model: type[models.Model]) -> Iterator[models.Field[object, object]]:
    for each in model._meta.concrete_fields:
        if isinstance(each, models.CharField | models.TextField):
            yield each


def _change(
    connection: BaseDatabaseWrapper, each: models.Field[object, object], collation: str | None
) -> str:
    parts = [
        f"MODIFY {connection.ops.quote_name(str(each.column))} {each.db_type(connection)}",
        f"CHARACTER SET {EVERY_LETTER}",
        f"COLLATE {collation}" if collation else "",
        "NULL" if each.null else "NOT NULL",
    ]
    return " ".join(filter(None, parts))
