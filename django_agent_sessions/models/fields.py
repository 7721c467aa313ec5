"""Model fields: exactly compared ids and exact JSON."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.expressions import Col

from django_agent_sessions.content import codec, exact_json
from django_agent_sessions.content.codec import Holder, Owned
from django_agent_sessions.db.vendors import database_vendor
from django_agent_sessions.models.shared_text import with_text
from django_agent_sessions.values.ids import MAX_ID_LENGTH

if TYPE_CHECKING:
    from django_agent_sessions.models.querysets import HeldQuerySet

    # Fields are generic for the type checker only.
    _CharField = models.CharField[str, str]
    _TextField = models.TextField[Any, Any]
else:
    _CharField = models.CharField
    _TextField = models.TextField

_EXACT_COLLATIONS = {
    # By default MariaDB and MySQL treat "user-1" and "USER-1" as equal, and "a" and "a ".
    "mariadb": "utf8mb4_nopad_bin",
    "mysql": "utf8mb4_0900_bin",
    # Every deterministic collation is exact; "C" also orders by code point, for prefix ranges.
    "postgresql": "C",
}


class IdField(_CharField):
    """Text that compares exactly, including case and trailing spaces, on every database."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("max_length", MAX_ID_LENGTH)
        super().__init__(*args, **kwargs)

    def db_parameters(self, connection: BaseDatabaseWrapper) -> Any:
        """Add the database's binary collation without padding."""
        parameters = super().db_parameters(connection)
        collation = _EXACT_COLLATIONS.get(database_vendor(connection))
        return {**parameters, "collation": collation} if collation else parameters


@dataclass(frozen=True, slots=True)
class CorruptPayload:
    """The text of a column that is not a valid payload.

    It takes the place of the value, so that one corrupt row does not make the others unreadable.
    """

    text: str

    def __repr__(self) -> str:
        # A repr appears in logs and tracebacks, which must not contain content.
        return f"<CorruptPayload of {len(self.text)} characters>"


@dataclass(frozen=True, slots=True)
class SealedText:
    """A text that was sealed for its row and column, as it is stored."""

    text: str


class ContentColumn(Col):
    """A content column: the whole payload, with the text that it shares with another column.

    It is selected with its row's key if a codec needs it to open the text.
    """

    target: ExactJSONField

    def as_sql(self, compiler: Any, connection: Any) -> Any:
        sql, params = super().as_sql(compiler, connection)
        if (text := self.target.shared_text) is None:
            return sql, params
        text_sql, _ = compiler.compile(Col(self.alias, text))
        return with_text(connection.vendor, sql, text_sql), params

    def select_format(self, compiler: Any, sql: str, params: Any) -> Any:
        if codec.is_plain():
            return sql, params
        key, _ = compiler.compile(Col(self.alias, self.target.model._meta.pk))
        return with_row(compiler.connection, self.target, key, sql), params


class ExactJSONField(_TextField):
    """JSON that is read exactly as it was written, with its key order, on every database.

    See ``content.exact_json`` for the supported values. An invalid text is read as
    :class:`CorruptPayload`. With a codec, a value that is written by ``update()`` has to be sealed
    first: see :func:`sealed_columns`.
    """

    if TYPE_CHECKING:
        # django-stubs reads the accepted types here: any JSON value, not only text.
        _pyi_private_set_type: Any
        _pyi_private_get_type: Any

    @functools.cached_property
    def is_content(self) -> bool:
        """Whether the column contains words of a conversation, as its model declares."""
        declared = getattr(self.model, "content_columns", None)
        return declared is not None and self.name in declared.stored

    @functools.cached_property
    def shared_text(self) -> models.Field[Any, Any] | None:
        """The column whose text the stored payload leaves out."""
        model: Any = self.model
        declared = getattr(model, "content_columns", None)
        name = None if declared is None else declared.shared_text.get(self.name)
        return None if name is None else model._meta.get_field(name)

    @functools.cached_property
    def codec_column(self) -> str:
        """The name of the column for a codec."""
        return f"{self.model._meta.db_table}.{self.column}"

    @functools.cached_property
    def opened_as(self) -> str:
        """The names of the columns for which its texts may have been sealed."""
        model: Any = self.model
        source = model.content_columns.copied_from.get(self.name)
        others = [model._meta.get_field(source).codec_column] if source else []
        return codec.either(self.codec_column, *others)

    def get_col(self, alias: str, output_field: Any = None) -> ContentColumn:
        if alias == self.model._meta.db_table and output_field in (None, self):
            return self.cached_col
        return ContentColumn(alias, self, output_field)

    @functools.cached_property
    def cached_col(self) -> ContentColumn:
        return ContentColumn(self.model._meta.db_table, self)

    def from_db_value(self, value: str | None, expression: Any, connection: Any) -> Any:
        if value is None:
            return None
        return decode_payload(value) if codec.is_plain() else self._opened(value, expression)

    def _opened(self, value: str, expression: Any) -> Any:
        if isinstance(expression, Col) and not self.is_content:
            return decode_payload(value)
        try:
            return decode_payload(codec.open_selected(value))
        except ValueError:
            return CorruptPayload(codec.stored_part(value))

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:
        value = super().pre_save(model_instance, add)
        if codec.is_plain() or not self.is_content:
            return value
        return self.sealed(model_instance.pk, value, holder_of(model_instance))

    def sealed(self, key: Any, value: Any, holder: Holder) -> Any:
        """Return the value to write to the column of a row: sealed, if there is a codec."""
        if codec.is_plain() or not self.is_content or isinstance(value, SealedText):
            return value
        text = self._text(value)
        return (
            text if text is None else SealedText(codec.seal(key, self.codec_column, text, holder))
        )

    def get_prep_value(self, value: Any) -> str | None:
        if isinstance(value, SealedText):
            return value.text
        is_open = not (isinstance(value, CorruptPayload) or (value is None and self.null))
        if is_open and self.is_content and not codec.is_plain():
            raise TypeError(f"{self} has to be sealed with the key of its row before it is written")
        return self._text(value)

    def to_python(self, value: Any) -> Any:
        """Decode text from a fixture; other values stay unchanged."""
        return decode_payload(value) if isinstance(value, str) else value

    def value_to_string(self, obj: models.Model) -> str:
        """Return the stored text for serializers (``dumpdata``), to keep bytes and key order."""
        return self._text(self.value_from_object(obj)) or ""

    def _text(self, value: Any) -> str | None:
        if value is None:
            return None if self.null else "null"
        return value.text if isinstance(value, CorruptPayload) else exact_json.dumps(value)


def sealed_columns(
    model: type[models.Model], key: Any, columns: Mapping[str, Any], holder: Holder
) -> Mapping[str, Any]:
    """Return values for ``update()`` of one row, with the content columns sealed for it."""
    if codec.is_plain():
        return columns
    fields = {name: model._meta.get_field(name) for name in columns}
    return {
        name: field.sealed(key, columns[name], holder)
        if isinstance(field, ExactJSONField)
        else columns[name]
        for name, field in fields.items()
    }


def update_one(rows: HeldQuerySet[Any], content: Mapping[str, Any], **columns: Any) -> int:
    """Update the one row of a queryset, with its content columns sealed for it.

    The caller has locked the row's session, and checked it for a legal hold.
    """
    if codec.is_plain():
        return rows.update_locked(**content, **columns)
    row = rows.values_list("pk", "session").first()
    if row is None:
        return 0
    key, session = row
    sealed = sealed_columns(rows.model, key, content, session)
    return rows.filter(pk=key).update_locked(**sealed, **columns)


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


def with_row(connection: BaseDatabaseWrapper, field: ExactJSONField, key: str, text: str) -> str:
    """Return the SQL of a column's text with its row's key, as a codec opens it."""
    if codec.is_plain() or not field.is_content:
        return text
    between = f"'{codec.SEPARATOR}{field.opened_as}{codec.SEPARATOR}'"
    if connection.vendor == "mysql":
        return f"CONCAT({key}, {between}, {text})"
    return f"CAST({key} AS text) || {between} || {text}"


def decode_payload(text: str) -> Any:
    """Decode a stored payload; invalid text becomes a CorruptPayload."""
    try:
        return exact_json.loads(text)
    except ValueError:
        codec.refuse_sealed(text)
        return CorruptPayload(text)
