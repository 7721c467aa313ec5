"""Fields and the base of the API's serializers."""

from __future__ import annotations

import math
from datetime import UTC, datetime, tzinfo
from typing import Any

from django.conf import settings
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from django_agent_sessions.exceptions import InvalidIdError
from django_agent_sessions.ids import MAX_ID_LENGTH, validate_id
from django_agent_sessions.querysets import is_in_any_calendar
from django_agent_sessions.references import BlobRef
from django_agent_sessions.transcripts import displayable

NO_MOMENT = "Give a moment with its time zone, such as 2026-01-02T03:04:05Z."
"""What to say of a text that is no moment."""

MAX_DEPTH = 200
"""Lists and objects in each other that an answer shows; what others wrote may nest deeper."""


class MomentField(serializers.DateTimeField):
    """A moment, as JavaScript writes it: UTC, milliseconds, ``Z``; read in any time zone."""

    def to_representation(self, value: Any) -> str:
        """Writes a moment."""
        return moment(value)

    def to_internal_value(self, value: Any) -> datetime:
        """Reads a moment."""
        found = read_moment(value)
        if found is None:
            raise serializers.ValidationError(NO_MOMENT)
        return found


class ShownField(serializers.CharField):
    """A text that somebody wrote, as it can be shown."""

    def to_representation(self, value: Any) -> str:
        """Replaces what no page can carry."""
        return displayable(str(value))


class FlagField(serializers.BooleanField):
    """``true`` or ``false`` in a request; a number or a word is neither."""

    def to_internal_value(self, data: Any) -> bool:
        """Reads it."""
        if not isinstance(data, bool):
            raise serializers.ValidationError("Give true or false.")
        return data


class NumberField(serializers.IntegerField):
    """A whole number in a request; a text is none."""

    def to_internal_value(self, data: Any) -> int:
        """Reads a number."""
        if isinstance(data, bool) or not isinstance(data, int):
            raise serializers.ValidationError("Give a whole number.")
        return data


class TextField(serializers.CharField):
    """A text in a request; a number is none."""

    def to_internal_value(self, data: Any) -> str:
        """Reads a text."""
        if not isinstance(data, str):
            raise serializers.ValidationError("Give a text.")
        return str(super().to_internal_value(data))


class IdField(TextField):
    """An id or a name that a client chooses, or leaves out."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(required=False, max_length=MAX_ID_LENGTH, **kwargs)

    def to_internal_value(self, data: Any) -> str:
        """Reads an id."""
        try:
            return validate_id(super().to_internal_value(data), str(self.field_name))
        except InvalidIdError as error:
            raise serializers.ValidationError(str(error)) from None


@extend_schema_field({"oneOf": [{"type": "string"}, {"type": "integer", "minimum": 0}]})
class PathKeyField(serializers.JSONField):
    """A key on the way to a part of a message: a name, or a number from 0."""


@extend_schema_field({"description": "JSON of any kind.", "nullable": True})
class ShownJSONField(serializers.JSONField):
    """JSON that somebody else wrote, as it can be shown."""

    def to_representation(self, value: Any) -> Any:
        """Replaces what no page can carry."""
        return shown(value)


class StrictSerializer(serializers.Serializer[Any]):
    """What a request may hold: a field that it does not know is an error, not a silence."""

    def to_internal_value(self, data: Any) -> Any:
        """Reads a request."""
        if isinstance(data, dict):
            known = [name for name, field in self.fields.items() if not field.read_only]
            unknown = sorted(str(name) for name in data if name not in known)
            if unknown:
                hint = f"There is no such field. The fields are: {', '.join(known)}."
                raise serializers.ValidationError(
                    {displayable(name)[:100]: [hint] for name in unknown[:10]}
                )
        return super().to_internal_value(data)


def read_moment(given: object) -> datetime | None:
    """Reads a moment of a request: with an offset, and not at the ends of what dates can be."""
    if not isinstance(given, str):
        return None
    try:
        found = parse_datetime(given)
    except ValueError:
        return None
    if found is None or found.tzinfo is None or not is_in_any_calendar(found):
        return None
    return found if settings.USE_TZ else timezone.make_naive(found, _zone())


def _zone() -> tzinfo:
    """Gives the zone of what is stored without one, whichever the request is shown in."""
    return timezone.get_default_timezone()


def moment(value: datetime) -> str:
    """Writes a moment as JavaScript's ``toISOString()`` does."""
    if timezone.is_naive(value):
        value = timezone.make_aware(value, _zone())
    text = value.astimezone(UTC).isoformat(timespec="milliseconds")
    return f"{text.removesuffix('+00:00')}Z"


def shown(value: Any, depth: int = 0) -> Any:
    """Makes any value of a payload fit for an answer."""
    if isinstance(value, str):
        return displayable(value)
    if isinstance(value, dict):
        if depth >= MAX_DEPTH:
            return "…"
        return {displayable(str(key)): shown(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return "…" if depth >= MAX_DEPTH else [shown(item, depth + 1) for item in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return {"bytes": len(value)}
    if isinstance(value, BlobRef):
        # Without its hash, with which guesses could be tested.
        told = {"media_type": value.media_type} if value.media_type else {}
        return {"bytes": value.size, **told}
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int):
        return value
    return displayable(str(value))
