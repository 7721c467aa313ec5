"""Model fields of our own: exactly comparing ids and exact JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper

from . import payloads
from .ids import MAX_ID_LENGTH
from .vendors import vendor_of

if TYPE_CHECKING:
    # Only the type checker knows what a field holds.
    _CharField = models.CharField[str, str]
    _TextField = models.TextField[Any, Any]
else:
    _CharField = models.CharField
    _TextField = models.TextField

_EXACT_COLLATIONS = {
    # MariaDB's and MySQL's defaults make "user-1" equal "USER-1", and pad: "a" equals "a ".
    "mariadb": "utf8mb4_nopad_bin",
    "mysql": "utf8mb4_0900_bin",
    # Any deterministic collation is exact; "C" also orders by code point, for ranges by prefix.
    "postgresql": "C",
}


class IdField(_CharField):
    """Text that compares exactly, to the last letter's case and trailing space, on every vendor."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("max_length", MAX_ID_LENGTH)
        super().__init__(*args, **kwargs)

    def db_parameters(self, connection: BaseDatabaseWrapper) -> Any:
        """Adds the vendor's binary, unpadded collation."""
        parameters = super().db_parameters(connection)
        collation = _EXACT_COLLATIONS.get(vendor_of(connection))
        return {**parameters, "collation": collation} if collation else parameters


@dataclass(frozen=True, slots=True)
class CorruptPayload:
    """What a column held that is no payload.

    It stands in the place of the value, so that one bad row hides none of the others.
    """

    text: str

    def __repr__(self) -> str:
        # A repr ends up in logs and tracebacks, where content must not.
        return f"<CorruptPayload of {len(self.text)} characters>"


class ExactJSONField(_TextField):
    """JSON that comes back equal, with its key order, on every database.

    See :mod:`django_agent_sessions.payloads` for what it takes. A column that holds something
    else reads as :class:`CorruptPayload`.
    """

    if TYPE_CHECKING:
        # Where django-stubs looks for what may be assigned: any JSON value, not only text.
        _pyi_private_set_type: Any
        _pyi_private_get_type: Any

    def from_db_value(self, value: str | None, expression: Any, connection: Any) -> Any:
        """Reads the column's text."""
        return None if value is None else read(value)

    def get_prep_value(self, value: Any) -> str | None:
        """Writes the value as the column's text."""
        if value is None:
            return None if self.null else "null"
        if isinstance(value, CorruptPayload):
            return value.text
        return payloads.dumps(value)

    def to_python(self, value: Any) -> Any:
        """Reads the text that :meth:`value_to_string` gave to a fixture."""
        return read(value) if isinstance(value, str) else value

    def value_to_string(self, obj: models.Model) -> str:
        """Gives serializers (``dumpdata``) the stored text: a fixture keeps bytes and key order."""
        return self.get_prep_value(self.value_from_object(obj)) or ""


def read(text: str) -> Any:
    """Reads a stored payload, whatever is in it."""
    try:
        return payloads.loads(text)
    except ValueError:
        return CorruptPayload(text)
