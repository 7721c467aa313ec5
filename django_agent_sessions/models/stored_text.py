"""The stored text of content columns in queries, which is faster than the decoded value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.models import F, Func

from django_agent_sessions.content import codec

from .content_field import with_row
from .fields import ExactJSONField, opened_json

if TYPE_CHECKING:
    _TextField = models.TextField[Any, Any]
else:
    _TextField = models.TextField


class OpenedTextField(_TextField):
    """The text of a payload column, or its first characters. A text that no codec opens stays."""

    def __init__(self, length: int | None = None) -> None:
        super().__init__(null=True)
        self.length = length

    def from_db_value(self, value: str | None, expression: Any, connection: Any) -> str | None:
        return None if value is None else opened_text(value)[: self.length]


class OpenedMetadataField(OpenedTextField):
    """The text of a session's metadata, or its first characters."""

    def from_db_value(self, value: str | None, expression: Any, connection: Any) -> str | None:
        if value is None:
            return None
        return (value if codec.is_plain() else opened_json(value))[: self.length]


class StoredText(Func):
    """The text of a content column, or its first characters.

    With a codec, the row's key precedes it, unless it is only measured (``keyed=False``).
    """

    def __init__(
        self,
        column: str,
        *,
        length: int | None = None,
        output_field: Any = None,
        keyed: bool = True,
    ) -> None:
        self.length = length
        self.keyed = keyed
        super().__init__(F("pk"), F(column), output_field=output_field or OpenedTextField(length))

    def as_sql(self, compiler: Any, connection: Any, *_: Any, **__: Any) -> Any:
        key, column = self.get_source_expressions()
        sql = compiler.compile(column)[0]
        is_plain = codec.is_plain()
        if is_plain or not self.keyed:
            sql = column.target.as_text(connection, sql)
        else:
            sql = with_row(connection, column.target, compiler.compile(key)[0], sql)
        # A sealed text is cut after it was opened.
        cut = self.length is not None and is_plain
        return (f"SUBSTR({sql}, 1, {self.length})" if cut else sql), []


def opened_text(selected: str) -> str:
    """Return a text that was selected as :class:`StoredText`; as it is, if it cannot be opened."""
    try:
        return codec.open_selected(selected)
    except ValueError:
        return codec.stored_part(selected)


PAYLOAD_TEXT = StoredText("message")
"""The payload of a message as stored text."""


def stored_payload() -> StoredText:
    """Return the payload of a message, decoded, for expressions in which a codec needs its key."""
    return StoredText("message", output_field=ExactJSONField())


def payload_beginning(length: int) -> StoredText:
    """Return the first characters of a message's payload."""
    return StoredText("message", length=length)


def stored_metadata(length: int | None = None) -> StoredText:
    """Return the metadata of a session as text, or its first characters."""
    return StoredText("metadata", length=length, output_field=OpenedMetadataField(length))
