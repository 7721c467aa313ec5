"""Constraints that are stored differently by the databases."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor


class UniqueWhereSet(models.UniqueConstraint):
    """Unique columns, of which ``optional`` is usually NULL.

    On PostgreSQL and SQLite it is an index of the other rows only, so that a row with NULL costs no
    entry. MariaDB and MySQL have no such indexes: there it contains all rows, and is as strict,
    because NULLs differ from each other. Django's own ``condition`` would drop it there.
    """

    def __init__(self, *, fields: list[str], optional: str, name: str) -> None:
        super().__init__(fields=fields, name=name)
        self.optional = optional

    def constraint_sql(self, model: Any, schema_editor: Any) -> Any:
        """Return the SQL in CREATE TABLE; None if an index is created after the table."""
        return self._for(schema_editor).constraint_sql(model, schema_editor)

    def create_sql(self, model: Any, schema_editor: Any) -> Any:
        """Return the SQL that adds it."""
        return self._for(schema_editor).create_sql(model, schema_editor)

    def remove_sql(self, model: Any, schema_editor: Any) -> Any:
        """Return the SQL that removes it."""
        return self._for(schema_editor).remove_sql(model, schema_editor)

    def deconstruct(self) -> Any:
        """Add the optional column to the arguments in migrations."""
        path, args, kwargs = super().deconstruct()
        return path, args, {**kwargs, "optional": self.optional}

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other) and self.optional == getattr(other, "optional", None)

    __hash__ = models.UniqueConstraint.__hash__

    def _for(self, schema_editor: BaseDatabaseSchemaEditor) -> models.UniqueConstraint:
        """Return the constraint that the database has."""
        condition = None
        if schema_editor.connection.features.supports_partial_indexes:
            condition = models.Q(**{f"{self.optional}__isnull": False})
        return models.UniqueConstraint(fields=self.fields, name=self.name, condition=condition)


class IndexWhereNotEmpty(models.Index):
    """An index of a text column that is usually empty.

    On PostgreSQL and SQLite it contains the other rows only, so that an empty text costs no entry;
    a query needs the condition ``column > ''`` to use it on SQLite. On MariaDB and MySQL, which
    have no such indexes, it contains all rows. Django's own ``condition`` would drop it there.
    """

    def create_sql(self, model: Any, schema_editor: Any, using: str = "", **kwargs: Any) -> Any:
        """Return the SQL that creates it."""
        condition = None
        if schema_editor.connection.features.supports_partial_indexes:
            condition = models.Q(**{f"{self.fields[0]}__gt": ""})
        index = models.Index(fields=self.fields, name=self.name, condition=condition)
        return index.create_sql(model, schema_editor, using, **kwargs)
