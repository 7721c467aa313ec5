"""How a migration locks tables that servers of the earlier release still read and write."""

from __future__ import annotations

import pytest
from django.db.migrations import AddIndex, AlterModelOptions, CreateModel, DeleteModel, Migration
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation

from django_agent_sessions.sql.add_constraint import AddUniqueWhereSet

LATER: list[Migration] = [
    migration
    for (app, name), migration in sorted(MigrationLoader(None).disk_migrations.items())
    if app == "agent_sessions" and name != "0001_initial"
]
each = pytest.mark.parametrize("migration", LATER, ids=lambda migration: str(migration.name))


def _model(operation: Operation) -> str | None:
    if isinstance(operation, CreateModel | DeleteModel):
        return operation.name_lower
    return getattr(operation, "model_name", None)


@each
def test_a_migration_waits_for_no_table_while_it_has_another_locked(migration):
    """Else PostgreSQL finds a deadlock with those who lock the two in the other order."""
    models = {
        _model(operation)
        for operation in migration.operations
        if not isinstance(operation, AlterModelOptions)  # which no database sees
    }

    assert len(models - {None}) <= 1
    assert models != {None} or not migration.atomic


@each
def test_a_migration_that_adds_an_index_does_nothing_else(migration):
    """Readers continue while an index is built, but not after a column was added."""
    kinds = {type(operation) for operation in migration.operations}

    assert not kinds & {AddIndex, AddUniqueWhereSet} or len(kinds) == 1
