"""Hash partitions by session for the table of messages on PostgreSQL: a migration operation.

A project adds the operation to a migration of its own::

    from django.db import migrations

    from django_agent_sessions.sql.partitioning import PartitionMessages


    class Migration(migrations.Migration):
        dependencies = [("agent_sessions", "0001_initial")]
        operations = [PartitionMessages(partitions=16)]

Both directions copy the table under an exclusive lock, which blocks all readers and writers.
PostgreSQL requires the session's column in every unique key: see the page on scaling for the
consequences.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.operations.base import Operation, OperationCategory
from django.db.migrations.state import ProjectState

APP, MODEL = "agent_sessions", "sessionmessage"
PARTITION_COLUMN = "session_id"


class PartitionMessages(Operation):
    """Partition the table of messages by the hash of their session; a no-op on other databases."""

    reversible = True
    reduces_to_sql = True
    atomic = True
    category = OperationCategory.SQL

    def __init__(self, partitions: int = 16) -> None:
        if partitions < 1:
            raise ValueError("partitions must be 1 or more")
        self.partitions = partitions

    def deconstruct(self) -> tuple[str, Sequence[Any], dict[str, Any]]:
        return type(self).__name__, [], {"partitions": self.partitions}

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        """Change nothing: the models stay the same."""

    def database_forwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        if table := self._table(schema_editor, from_state):
            _rebuild(schema_editor, table, self.partitions)

    def database_backwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        if table := self._table(schema_editor, from_state):
            _rebuild(schema_editor, table, None)

    def describe(self) -> str:
        return f"Partition the messages of agents into {self.partitions} partitions"

    def _table(self, schema_editor: BaseDatabaseSchemaEditor, state: ProjectState) -> str:
        model = state.apps.get_model(APP, MODEL)
        connection = schema_editor.connection
        if connection.vendor != "postgresql":
            return ""
        if not self.allow_migrate_model(connection.alias, model):
            return ""
        return str(model._meta.db_table)


def _rebuild(editor: BaseDatabaseSchemaEditor, table: str, partitions: int | None) -> None:
    """Create the table again, with the same columns, indexes, constraints, triggers and grants."""
    quote = editor.connection.ops.quote_name
    name, old = quote(table), quote(f"{table}_old")
    with editor.connection.cursor() as cursor:
        # Pending deferred constraint checks would prevent altering the table.
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute(f"LOCK TABLE {name} IN ACCESS EXCLUSIVE MODE")
        cursor.execute(_CONSTRAINTS, [name])
        constraints = cursor.fetchall()
        cursor.execute(_INDEXES, [name])
        indexes = [definition for (definition,) in cursor.fetchall()]
        cursor.execute(_GRANTS, [name])
        grants = cursor.fetchall()
        cursor.execute(_TRIGGERS, [name])
        triggers = [definition for (definition,) in cursor.fetchall()]
        cursor.execute(f"ALTER TABLE {name} RENAME TO {old}")
        like = f"LIKE {old} INCLUDING DEFAULTS INCLUDING STORAGE INCLUDING COMMENTS"
        if partitions is None:
            cursor.execute(f"CREATE TABLE {name} ({like})")
        else:
            cursor.execute(
                f"CREATE TABLE {name} ({like}) PARTITION BY HASH ({quote(PARTITION_COLUMN)})"
            )
            for number in range(partitions):
                cursor.execute(
                    f"CREATE TABLE {quote(f'{table}_{number}')} PARTITION OF {name} "
                    f"FOR VALUES WITH (MODULUS {partitions}, REMAINDER {number})"
                )
        cursor.execute(f"INSERT INTO {name} SELECT * FROM {old}")  # noqa: S608 - our own names
        # Also drops its indexes, so that the new ones can have their names.
        cursor.execute(f"DROP TABLE {old}")
        for constraint, kind, columns, definition, options in constraints:
            if kind in ("p", "u"):
                definition = _unique(kind, columns, with_session=partitions is not None)
                if options:
                    definition += f" WITH ({options})"
            cursor.execute(f"ALTER TABLE {name} ADD CONSTRAINT {quote(constraint)} {definition}")
        for definition in indexes:
            # PostgreSQL's definition has ONLY, which would leave out the partitions.
            cursor.execute(definition.replace(" ON ONLY ", " ON ", 1))
        for definition in triggers:
            cursor.execute(definition)
        for grantee, privilege in grants:
            cursor.execute(f"GRANT {privilege} ON {name} TO {grantee}")
        cursor.execute(f"ANALYZE {name}")


def _unique(kind: str, columns: list[str], *, with_session: bool) -> str:
    """Return a key's definition; with partitions, the session is its last column."""
    names = [column for column in columns if column != PARTITION_COLUMN] + (
        [PARTITION_COLUMN] if with_session else []
    )
    word = "PRIMARY KEY" if kind == "p" else "UNIQUE"
    return f"{word} ({', '.join(names)})"


_CONSTRAINTS = """
SELECT conname, contype::text, ARRAY(
    SELECT attname::text FROM unnest(conkey) WITH ORDINALITY AS k (number, place)
    JOIN pg_attribute ON attrelid = conrelid AND attnum = k.number ORDER BY place
), pg_get_constraintdef(oid),
    (SELECT array_to_string(reloptions, ', ') FROM pg_class WHERE pg_class.oid = conindid)
FROM pg_constraint WHERE conrelid = %s::regclass AND contype IN ('p', 'u', 'f', 'c')
ORDER BY contype DESC, conname
"""

_INDEXES = """
SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = %s::regclass
AND indexrelid NOT IN (SELECT conindid FROM pg_constraint WHERE conrelid = indrelid)
ORDER BY indexrelid
"""

_TRIGGERS = """
SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid = %s::regclass AND NOT tgisinternal
ORDER BY tgname
"""

_GRANTS = """
SELECT CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END,
    privilege_type
FROM pg_class, aclexplode(relacl) WHERE oid = %s::regclass AND grantee <> relowner
"""
