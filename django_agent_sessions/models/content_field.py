"""Columns that may contain words of a conversation, sealed for their row if there is a codec."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.expressions import Col

from django_agent_sessions.content import codec
from django_agent_sessions.content.codec import Holder, Owned

if TYPE_CHECKING:
    from django.db.models import QuerySet

    _Field = models.Field[Any, Any]
else:
    _Field = models.Field


@dataclass(frozen=True, slots=True)
class SealedText:
    """A text that was sealed for its row and column, as it is stored."""

    text: str


class ContentColumn(Col):
    """A content column, which is selected with its row's key if a codec needs it."""

    target: ContentField

    def select_format(self, compiler: Any, sql: str, params: Any) -> Any:
        if codec.is_plain():
            return sql, params
        key, _ = compiler.compile(Col(self.alias, self.target.model._meta.pk))
        return with_row(compiler.connection, self.target, key, sql), params


class ContentField(_Field):
    """The base of fields whose values may contain words of a conversation.

    With a codec, a value that is written by ``update()`` has to be sealed first: see
    :func:`sealed_columns`.
    """

    @functools.cached_property
    def is_content(self) -> bool:
        """Whether the column contains words of a conversation, as its model declares."""
        declared = getattr(self.model, "content_columns", None)
        return declared is not None and self.name in declared.stored

    @functools.cached_property
    def codec_column(self) -> str:
        """The name of the column for a codec."""
        return f"{self.model._meta.db_table}.{self.column}"

    @functools.cached_property
    def opened_as(self) -> str:
        """The names of the columns for which its texts may have been sealed."""
        model: Any = self.model
        earlier = model.content_columns.sealed_as.get(self.name)
        others = [f"{model._meta.db_table}.{earlier}"] if earlier else []
        return codec.either(self.codec_column, *others)

    def get_col(self, alias: str, output_field: Any = None) -> ContentColumn:
        if alias == self.model._meta.db_table and output_field in (None, self):
            return self.cached_col
        return ContentColumn(alias, self, output_field)

    @functools.cached_property
    def cached_col(self) -> ContentColumn:
        return ContentColumn(self.model._meta.db_table, self)

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:
        value = super().pre_save(model_instance, add)
        if codec.is_plain() or not self.is_content:
            return value
        return self.sealed(model_instance.pk, value, holder_of(model_instance))

    def sealed(self, key: Any, value: Any, holder: Holder) -> Any:
        """Return the value to write to the column of a row: sealed, if there is a codec."""
        if codec.is_plain() or not self.is_content or isinstance(value, SealedText):
            return value
        text = self.text_of(value)
        return text if text is None else SealedText(self.seal_text(key, text, holder))

    def text_of(self, value: Any) -> str | None:
        """Return the text of a value, as it is stored without a codec."""
        raise NotImplementedError

    def as_text(self, connection: BaseDatabaseWrapper, sql: str) -> str:
        """Return the SQL of the stored text, given that of the column."""
        return sql

    def seal_text(self, key: Any, text: str, holder: Holder) -> str:
        """Return a text in the form in which it is stored."""
        return codec.seal(key, self.codec_column, text, holder)

    def open_text(self, key: UUID, stored: str) -> str:
        """Return the text that a stored one contains."""
        return codec.open_stored(key, self.opened_as, stored)

    def is_current(self, stored: str, holder: Holder) -> bool:
        """Return whether a stored text has the form in which it would be written now."""
        return codec.is_current(stored, holder)


def sealed_columns(
    model: type[models.Model], key: Any, columns: Mapping[str, Any], holder: Holder
) -> Mapping[str, Any]:
    """Return values for ``update()`` of one row, with the content columns sealed for it."""
    if codec.is_plain():
        return columns
    fields = {name: model._meta.get_field(name) for name in columns}
    return {
        name: field.sealed(key, columns[name], holder)
        if isinstance(field, ContentField)
        else columns[name]
        for name, field in fields.items()
    }


def update_one(rows: QuerySet[Any], content: Mapping[str, Any], **columns: Any) -> int:
    """Update the one row of a queryset, with its content columns sealed for it.

    The caller has locked the row's session.
    """
    if codec.is_plain():
        return rows.update(**content, **columns)
    row = rows.values_list("pk", "session").first()
    if row is None:
        return 0
    key, session = row
    sealed = sealed_columns(rows.model, key, content, session)
    return rows.filter(pk=key).update(**sealed, **columns)


def holder_of(row: Any) -> Holder:
    """Return whose content a row of a content model is."""
    path = row.content_columns.session
    if path == "pk":
        # A new session is not in its table yet.
        return Owned(row.owner_id)
    *parents, last = path.split("__")
    for name in parents:
        row = getattr(row, name)
    session: UUID = getattr(row, f"{last}_id")
    return session


def with_row(connection: BaseDatabaseWrapper, field: ContentField, key: str, text: str) -> str:
    """Return the SQL of a column's text with its row's key, as a codec opens it."""
    if codec.is_plain() or not field.is_content:
        return text
    between = f"'{codec.SEPARATOR}{field.opened_as}{codec.SEPARATOR}'"
    text = field.as_text(connection, text)
    if connection.vendor == "mysql":
        return f"CONCAT({key}, {between}, {text})"
    return f"CAST({key} AS text) || {between} || {text}"
