"""Hash partitions of the messages by session, for PostgreSQL: an operation for a migration.

A project that wants them puts the operation into a migration of its own::

    from django.db import migrations

    from django_agent_sessions.partitioning import PartitionMessages


    class Migration(migrations.Migration):
        dependencies = [("agent_sessions", "0001_initial")]
        operations = [PartitionMessages(partitions=16)]

It copies the table under a lock that nobody else reads or writes under, and so does the way back.
PostgreSQL demands the session in every key that is unique: see the page on scaling for what that
means.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.operations.base import Operation, OperationCategory
from django.db.migrations.state import ProjectState

APP, MODEL = "agent_sessions", "sessionmessage"
KEY = "session_id"


class PartitionMessages(Operation):
    """Parts the table of messages by the hash of their session; elsewhere it does nothing."""

    reversible = True
    reduces_to_sql = True
    atomic = True
    category = OperationCategory.SQL

    def __init__(self, partitions: int = 16) -> None:
        if partitions < 1:
            raise ValueError("there is at least one partition")
        self.partitions = partitions

    def deconstruct(self) -> tuple[str, Sequence[Any], dict[str, Any]]:
        """Tells how to write it into a migration."""
        return type(self).__name__, [], {"partitions": self.partitions}

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        """Changes nothing: the models are the same."""

    def database_forwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        """Copies the messages into partitions."""
        if table := self._table(schema_editor, from_state):
            _rebuild(schema_editor, table, self.partitions)

    def database_backwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        """Copies the messages into one table again."""
        if table := self._table(schema_editor, from_state):
            _rebuild(schema_editor, table, None)

    def describe(self) -> str:
        """Tells what it does."""
        return f"Part the messages of agents into {self.partitions} partitions"

    def _table(self, schema_editor: BaseDatabaseSchemaEditor, state: ProjectState) -> str:
        model = state.apps.get_model(APP, MODEL)
        connection = schema_editor.connection
        if connection.vendor != "postgresql":
            return ""
        if not self.allow_migrate_model(connection.alias, model):
            return ""
        return str(model._meta.db_table)


def _rebuild(editor: BaseDatabaseSchemaEditor, table: str, partitions: int | None) -> None:
    """Makes the table anew, with the same columns, indexes, constraints and grants."""
    quote = editor.connection.ops.quote_name
    name, old = quote(table), quote(f"{table}_old")
    with editor.connection.cursor() as cursor:
        # What is checked at the commit stands in the way of a change of the table.
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute(f"LOCK TABLE {name} IN ACCESS EXCLUSIVE MODE")
        cursor.execute(_CONSTRAINTS, [name])
        constraints = cursor.fetchall()
        cursor.execute(_INDEXES, [name])
        indexes = [definition for (definition,) in cursor.fetchall()]
        cursor.execute(_GRANTS, [name])
        grants = cursor.fetchall()
        cursor.execute(f"ALTER TABLE {name} RENAME TO {old}")
        like = f"LIKE {old} INCLUDING DEFAULTS INCLUDING STORAGE INCLUDING COMMENTS"
        if partitions is None:
            cursor.execute(f"CREATE TABLE {name} ({like})")
        else:
            cursor.execute(f"CREATE TABLE {name} ({like}) PARTITION BY HASH ({quote(KEY)})")
            for number in range(partitions):
                cursor.execute(
                    f"CREATE TABLE {quote(f'{table}_{number}')} PARTITION OF {name} "
                    f"FOR VALUES WITH (MODULUS {partitions}, REMAINDER {number})"
                )
        cursor.execute(f"INSERT INTO {name} SELECT * FROM {old}")  # noqa: S608 - our own names
        # With it go its indexes, whose names the new ones have.
        cursor.execute(f"DROP TABLE {old}")
        for constraint, kind, columns, definition in constraints:
            if kind in ("p", "u"):
                definition = _unique(kind, columns, with_session=partitions is not None)
            cursor.execute(f"ALTER TABLE {name} ADD CONSTRAINT {quote(constraint)} {definition}")
        for definition in indexes:
            # As PostgreSQL writes it, it is about one table only, not about its partitions.
            cursor.execute(definition.replace(" ON ONLY ", " ON ", 1))
        for grantee, privilege in grants:
            cursor.execute(f"GRANT {privilege} ON {name} TO {grantee}")
        cursor.execute(f"ANALYZE {name}")


def _unique(kind: str, columns: list[str], *, with_session: bool) -> str:
    """Writes a key, with the session as its last column where there are partitions."""
    named = [column for column in columns if column != KEY] + ([KEY] if with_session else [])
    word = "PRIMARY KEY" if kind == "p" else "UNIQUE"
    return f"{word} ({', '.join(named)})"


_CONSTRAINTS = """
SELECT conname, contype::text, ARRAY(
    SELECT attname::text FROM unnest(conkey) WITH ORDINALITY AS k (number, place)
    JOIN pg_attribute ON attrelid = conrelid AND attnum = k.number ORDER BY place
), pg_get_constraintdef(oid)
FROM pg_constraint WHERE conrelid = %s::regclass AND contype IN ('p', 'u', 'f', 'c')
ORDER BY contype DESC, conname
"""

_INDEXES = """
SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = %s::regclass
AND indexrelid NOT IN (SELECT conindid FROM pg_constraint WHERE conrelid = indrelid)
ORDER BY indexrelid
"""

_GRANTS = """
SELECT CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END,
    privilege_type
FROM pg_class, aclexplode(relacl) WHERE oid = %s::regclass AND grantee <> relowner
"""
