"""Model fields: exactly compared ids and exact JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper

from django_agent_sessions.content import exact_json
from django_agent_sessions.db.vendors import database_vendor
from django_agent_sessions.values.ids import MAX_ID_LENGTH

if TYPE_CHECKING:
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


class ExactJSONField(_TextField):
    """JSON that is read exactly as it was written, with its key order, on every database.

    See ``content.exact_json`` for the supported values. An invalid text is read as
    :class:`CorruptPayload`.
    """

    if TYPE_CHECKING:
        # django-stubs reads the accepted types here: any JSON value, not only text.
        _pyi_private_set_type: Any
        _pyi_private_get_type: Any

    def from_db_value(self, value: str | None, expression: Any, connection: Any) -> Any:
        return None if value is None else decode_payload(value)

    def get_prep_value(self, value: Any) -> str | None:
        if value is None:
            return None if self.null else "null"
        if isinstance(value, CorruptPayload):
            return value.text
        return exact_json.dumps(value)

    def to_python(self, value: Any) -> Any:
        """Decode text from a fixture; other values stay unchanged."""
        return decode_payload(value) if isinstance(value, str) else value

    def value_to_string(self, obj: models.Model) -> str:
        """Return the stored text for serializers (``dumpdata``), to keep bytes and key order."""
        return self.get_prep_value(self.value_from_object(obj)) or ""


def decode_payload(text: str) -> Any:
    """Decode a stored payload; invalid text becomes a CorruptPayload."""
    try:
        return exact_json.loads(text)
    except ValueError:
        return CorruptPayload(text)
