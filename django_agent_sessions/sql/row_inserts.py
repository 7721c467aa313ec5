"""Insert a row of a model in a fifth of the time that the ORM takes."""

from __future__ import annotations

from django.db import connections, models
from django.db.models.signals import post_save, pre_save

from django_agent_sessions.sql import cursors


def insert_row(using: str, row: models.Model) -> None:
    """Insert a row that has its key, with the ORM if a project receives its signals."""
    kind = type(row)
    if pre_save.has_listeners(kind) or post_save.has_listeners(kind):
        row.save(using=using, force_insert=True)
        return
    connection = connections[using]
    fields = kind._meta.concrete_fields
    sql = _statements.get((connection.vendor, kind))
    if sql is None:
        quote = connection.ops.quote_name
        columns = ", ".join(quote(cursors.column_name(field)) for field in fields)
        sql = _statements[connection.vendor, kind] = (
            f"INSERT INTO {quote(kind._meta.db_table)} ({columns}) "
            f"VALUES ({', '.join(['%s'] * len(fields))})"
        )
    values = [field.get_db_prep_save(field.pre_save(row, True), connection) for field in fields]
    with cursors.quick_cursor(connection) as cursor:
        cursor.execute(sql, values)
    row._state.adding, row._state.db = False, using


_statements: dict[tuple[str, type[models.Model]], str] = {}
