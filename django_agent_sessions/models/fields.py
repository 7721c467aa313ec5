"""Model fields: exactly compared ids, exact JSON, and short texts and JSON that can be sealed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.expressions import Col
from django.db.models.fields.json import KeyTransform

from django_agent_sessions.content import codec, exact_json
from django_agent_sessions.content.codec import Holder
from django_agent_sessions.db.vendors import database_vendor
from django_agent_sessions.exceptions import EncryptedSearchError
from django_agent_sessions.models.content_field import ContentColumn, ContentField, SealedText
from django_agent_sessions.values.ids import MAX_ID_LENGTH

if TYPE_CHECKING:
    # Fields are generic for the type checker only.
    _CharField = models.CharField[str, str]
    _JSONField = models.JSONField[Any, Any]
    _TextField = models.TextField[Any, Any]
else:
    _CharField = models.CharField
    _JSONField = models.JSONField
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


class ExactJSONField(ContentField, _TextField):
    """JSON that is read exactly as it was written, with its key order, on every database.

    See ``content.exact_json`` for the supported values. An invalid text is read as
    :class:`CorruptPayload`.
    """

    if TYPE_CHECKING:
        # django-stubs reads the accepted types here: any JSON value, not only text.
        _pyi_private_set_type: Any
        _pyi_private_get_type: Any

    def get_db_converters(self, connection: Any) -> list[Any]:
        return [_plain_payload if codec.is_plain() else self.from_db_value]

    def from_db_value(self, value: str | None, expression: Any, connection: Any) -> Any:
        if value is None:
            return None
        if isinstance(expression, Col) and not self.is_content:
            return decode_payload(value)
        try:
            return decode_payload(codec.open_selected(value))
        except ValueError:
            return CorruptPayload(codec.stored_part(value))

    def get_prep_value(self, value: Any) -> str | None:
        if isinstance(value, SealedText):
            return value.text
        is_open = not (isinstance(value, CorruptPayload) or (value is None and self.null))
        if is_open and self.is_content and not codec.is_plain():
            raise TypeError(f"{self} has to be sealed with the key of its row before it is written")
        return self.text_of(value)

    def to_python(self, value: Any) -> Any:
        """Decode text from a fixture; other values stay unchanged."""
        return decode_payload(value) if isinstance(value, str) else value

    def value_to_string(self, obj: models.Model) -> str:
        """Return the stored text for serializers (``dumpdata``), to keep bytes and key order."""
        return self.text_of(self.value_from_object(obj)) or ""

    def text_of(self, value: Any) -> str | None:
        if value is None:
            return None if self.null else "null"
        return value.text if isinstance(value, CorruptPayload) else exact_json.dumps(value)


class ContentTextField(ContentField, _CharField):
    """A short text, whose column has room for its sealed form. An empty text is not sealed."""

    def get_internal_type(self) -> str:
        return "TextField"

    def get_db_converters(self, connection: Any) -> list[Any]:
        return [_plain_text if codec.is_plain() else self.from_db_value]

    def from_db_value(self, value: str | None, expression: Any, connection: Any) -> str | None:
        if value is None:
            return None
        if not (isinstance(expression, ContentColumn) or codec.is_selected(value)):
            if codec.ENVELOPE.match(value):
                raise EncryptedSearchError(_NOT_COMPUTED)
            return codec.unmarked(value)
        stored = codec.stored_part(value)
        if not stored or stored.startswith(codec.PLAIN_TEXT):
            return stored[1:]
        try:
            return codec.open_selected(value)
        except ValueError:
            return stored

    def get_lookup(self, lookup_name: str) -> Any:
        if codec.refuses_search() and self.is_content and lookup_name not in _WITH_EMPTY:
            raise EncryptedSearchError(_NOT_COMPUTED)
        return super().get_lookup(lookup_name)

    def get_db_prep_save(self, value: Any, connection: Any) -> Any:
        is_open = isinstance(value, str) and value and self.is_content
        if is_open and not codec.is_plain():
            raise TypeError(f"{self} has to be sealed with the key of its row before it is written")
        return super().get_db_prep_save(value, connection)

    def get_prep_value(self, value: Any) -> str | None:
        if isinstance(value, SealedText):
            return value.text
        text: str | None = super().get_prep_value(value)
        if not text or not self.is_content:
            return text
        if codec.is_plain():
            return codec.marked(text)
        raise EncryptedSearchError(_NOT_COMPUTED)

    def text_of(self, value: Any) -> str | None:
        return None if value is None else str(value)

    def seal_text(self, key: Any, text: str, holder: Holder) -> str:
        sealed = super().seal_text(key, text, holder) if text else text
        return codec.marked(text) if sealed == text else sealed

    def open_text(self, key: UUID, stored: str) -> str:
        if not stored or stored.startswith(codec.PLAIN_TEXT):
            return stored[1:]
        return super().open_text(key, stored)

    def is_current(self, stored: str, holder: Holder) -> bool:
        return not stored or super().is_current(stored, holder)


def _plain_payload(value: str | None, expression: Any, connection: Any) -> Any:
    """Return a payload that was stored without a codec."""
    return None if value is None else decode_payload(value)


def _plain_text(value: str | None, expression: Any, connection: Any) -> str | None:
    """Return a text that was stored without a codec."""
    if not value or value[0] not in _UNUSUAL:
        return value
    codec.refuse_sealed(value)
    return codec.unmarked(value)


_UNUSUAL = ("e", codec.PLAIN_TEXT)
_WITH_EMPTY = ("exact", "in", "isnull")
_NOT_COMPUTED = (
    "the column is encrypted, so the database cannot search, compare or change its words"
)


_json_value = models.JSONField.from_db_value


class ContentJSONField(ContentField, _JSONField):
    """A JSON object, which is a sealed JSON string if a codec hides metadata, unless empty."""

    def from_db_value(self, value: str | None, expression: Any, connection: Any) -> Any:
        if value is None or isinstance(expression, KeyTransform):
            return _json_value(self, value, expression, connection)
        if not codec.is_plain() and codec.is_selected(value):
            value = opened_json(value)
        found = _json_value(self, value, expression, connection)
        if type(found) is str and codec.ENVELOPE.match(found):
            codec.refuse_sealed(found)
            raise EncryptedSearchError(_NOT_COMPUTED)
        return found

    def get_lookup(self, lookup_name: str) -> Any:
        if lookup_name != "isnull":
            self._refuse_search()
        return super().get_lookup(lookup_name)

    def get_transform(self, name: str) -> Any:
        self._refuse_search()
        return super().get_transform(name)

    def _refuse_search(self) -> None:
        if codec.hides_metadata() and self.is_content:
            raise EncryptedSearchError(_NOT_COMPUTED)

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        if isinstance(value, SealedText):
            return value.text
        if value and codec.hides_metadata() and self.is_content and isinstance(value, dict):
            raise TypeError(f"{self} has to be sealed with the key of its row before it is written")
        return super().get_db_prep_value(value, connection, prepared)

    def as_text(self, connection: BaseDatabaseWrapper, sql: str) -> str:
        return f"CAST({sql} AS text)" if connection.vendor == "postgresql" else sql

    def sealed(self, key: Any, value: Any, holder: Holder) -> Any:
        return super().sealed(key, value, holder) if codec.hides_metadata() else value

    def text_of(self, value: Any) -> str | None:
        return None if value is None else json.dumps(value, cls=self.encoder)

    def seal_text(self, key: Any, text: str, holder: Holder) -> str:
        if text == _EMPTY or not codec.hides_metadata():
            return text
        sealed = super().seal_text(key, text, holder)
        return text if sealed == text else json.dumps(sealed)

    def open_text(self, key: UUID, stored: str) -> str:
        sealed = _sealed_in(stored)
        return stored if sealed is None else super().open_text(key, sealed)

    def is_current(self, stored: str, holder: Holder) -> bool:
        if (sealed := _sealed_in(stored)) is not None:
            return codec.hides_metadata() and super().is_current(sealed, holder)
        return stored == _EMPTY or not codec.hides_metadata() or super().is_current(stored, holder)


_EMPTY = "{}"


def _sealed_in(stored: str) -> str | None:
    """Return the sealed text that is stored as a JSON string; None for an object."""
    found = json.loads(stored) if stored.startswith('"') else None
    return found if isinstance(found, str) and codec.ENVELOPE.match(found) else None


def opened_json(selected: str) -> str:
    """Return the text of a :class:`ContentJSONField` that was selected with its row."""
    stored = codec.stored_part(selected)
    sealed = _sealed_in(stored)
    if sealed is None:
        return stored
    return codec.open_selected(selected[: -len(stored)] + sealed)


def decode_payload(text: str) -> Any:
    """Decode a stored payload; invalid text becomes a CorruptPayload."""
    try:
        return exact_json.loads(text)
    except ValueError:
        codec.refuse_sealed(text)
        return CorruptPayload(text)
