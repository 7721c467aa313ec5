"""A migration operation that adds a unique index without a copy of the table."""

from __future__ import annotations

from typing import Any

from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations import AddConstraint


class AddUniqueWhereSet(AddConstraint):
    """Add a ``UniqueWhereSet``, also on SQLite, where Django would copy the table."""

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        model = to_state.apps.get_model(app_label, self.model_name)
        if self.allow_migrate_model(schema_editor.connection.alias, model):
            BaseDatabaseSchemaEditor.add_constraint(schema_editor, model, self.constraint)
