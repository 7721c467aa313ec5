"""Fields and the base class of the API's serializers."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, tzinfo
from typing import Any

from django.conf import settings
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from django_agent_sessions import conf
from django_agent_sessions.audit import MAX_REASON
from django_agent_sessions.content.blob_refs import BlobRef
from django_agent_sessions.content.dialects import displayable
from django_agent_sessions.content.exact_json import key_text
from django_agent_sessions.exceptions import InvalidIdError
from django_agent_sessions.models.querysets import is_valid_in_all_time_zones
from django_agent_sessions.rest.problems import BodyTooLarge
from django_agent_sessions.values.ids import MAX_ID_LENGTH, validate_id
from django_agent_sessions.values.prices import amount_text

INVALID_DATETIME = "Must be a date and time with a time zone, such as 2026-01-02T03:04:05Z."

MAX_JSON_DEPTH = 200
"""The nesting depth up to which a response shows JSON; stored JSON may nest deeper."""


class UTCDateTimeField(serializers.DateTimeField):
    """A date and time: UTC with milliseconds and ``Z`` in responses, any time zone in requests."""

    def to_representation(self, value: Any) -> str:
        return format_datetime(value)

    def to_internal_value(self, value: Any) -> datetime:
        parsed = parse_datetime_or_none(value)
        if parsed is None:
            raise serializers.ValidationError(INVALID_DATETIME)
        return parsed


class DisplayableField(serializers.CharField):
    """A text of any origin, in which unencodable characters are replaced."""

    convert = staticmethod(displayable)
    """The same for values that are texts already."""

    def to_representation(self, value: Any) -> str:
        return displayable(str(value))


class StrictBooleanField(serializers.BooleanField):
    """``true`` or ``false``; rejects numbers and words, which ``BooleanField`` accepts."""

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            raise serializers.ValidationError("Must be true or false.")
        return data


class StrictIntegerField(serializers.IntegerField):
    """An integer in a request; rejects texts, which ``IntegerField`` accepts."""

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, bool) or not isinstance(data, int):
            raise serializers.ValidationError("Must be an integer.")
        return data


class StrictTextField(serializers.CharField):
    """A string in a request; rejects numbers, which ``CharField`` accepts."""

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            raise serializers.ValidationError("Must be a string.")
        return str(super().to_internal_value(data))


class ReasonField(StrictTextField):
    """The reason of an action; the services refuse an empty one where it is required."""

    def __init__(self, **kwargs: Any) -> None:
        defaults = {
            "required": False,
            "allow_blank": True,
            "max_length": MAX_REASON,
            "help_text": "The reason, kept in the audit trail. The server may require one.",
        }
        super().__init__(**{**defaults, **kwargs})


class SessionIdField(StrictTextField):
    """An optional id or name that the client chooses."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(required=False, max_length=MAX_ID_LENGTH, **kwargs)

    def to_internal_value(self, data: Any) -> str:
        try:
            return validate_id(super().to_internal_value(data), str(self.field_name))
        except InvalidIdError as error:
            raise serializers.ValidationError(str(error)) from None


@extend_schema_field({"oneOf": [{"type": "string"}, {"type": "integer", "minimum": 0}]})
class PathKeyField(serializers.JSONField):
    """A key on the path to a part of a message: a name, or an index from 0."""


@extend_schema_field({"description": "JSON of any kind.", "nullable": True})
class DisplayableJSONField(serializers.JSONField):
    """JSON of any origin, made safe for a response by ``displayable_json``."""

    def to_representation(self, value: Any) -> Any:
        return displayable_json(value)


class StrictSerializer(serializers.Serializer[Any]):
    """A request whose unknown fields are errors instead of being ignored."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, dict):
            writable = [name for name, field in self.fields.items() if not field.read_only]
            unknown = sorted(str(name) for name in data if name not in writable)
            if unknown:
                hint = f"Unknown field. The fields are: {', '.join(writable)}."
                raise serializers.ValidationError(
                    {displayable(name)[:100]: [hint] for name in unknown[:10]}
                )
        return super().to_internal_value(data)


class ReasonSerializer(StrictSerializer):
    """The reason of a change."""

    reason = ReasonField()


class CostField(serializers.CharField):
    """A stored cost as a decimal number in a string."""

    def to_representation(self, value: Any) -> str:
        """Represent a cost in the currency of the prices, with all digits."""
        return amount_text(value)


def parse_datetime_or_none(value: object) -> datetime | None:
    """Parse a date and time of a request; return ``None`` if it is invalid.

    It needs a UTC offset, and is rejected where the year overflows in some time zone. The result is
    naive if ``USE_TZ`` is off.
    """
    if not isinstance(value, str):
        return None
    try:
        parsed = parse_datetime(value)
    except ValueError:
        return None
    if parsed is None or parsed.tzinfo is None or not is_valid_in_all_time_zones(parsed):
        return None
    return parsed if settings.USE_TZ else timezone.make_naive(parsed, _storage_zone())


def _storage_zone() -> tzinfo:
    """Return the time zone of naive stored values, not the one that is active for the request."""
    return timezone.get_default_timezone()


def format_datetime(value: datetime) -> str:
    """Format a datetime as JavaScript's ``toISOString()``: ``2026-01-02T03:04:05.678Z``."""
    if value.tzinfo is not UTC:
        if timezone.is_naive(value):
            value = timezone.make_aware(value, _storage_zone())
        value = value.astimezone(UTC)
    text = value.isoformat(timespec="milliseconds")
    return f"{text.removesuffix('+00:00')}Z"


def displayable_json(value: Any, depth: int = 0) -> Any:
    """Convert a value of a payload to JSON that every client can parse.

    Bytes and references to binaries become their size, unencodable characters ``�``, values nested
    deeper than :data:`MAX_JSON_DEPTH` ``…``, and NaN and infinity null.
    """
    if isinstance(value, str):
        return displayable(value)
    if isinstance(value, dict):
        if depth >= MAX_JSON_DEPTH:
            return "…"
        return {
            displayable(key_text(key) or str(key)): displayable_json(item, depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return (
            "…"
            if depth >= MAX_JSON_DEPTH
            else [displayable_json(item, depth + 1) for item in value]
        )
    if isinstance(value, bytes | bytearray | memoryview):
        return {"bytes": len(value)}
    if isinstance(value, BlobRef):
        # Without the hash, which would let a client test guesses of the content.
        media_type = {"media_type": value.media_type} if value.media_type else {}
        return {"bytes": value.size, **media_type}
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int):
        return value
    return displayable(str(value))


def check_metadata_size(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata of a request; raise ``BodyTooLarge`` if it is too large."""
    most = conf.get_settings().MAX_METADATA_BYTES
    if len(json.dumps(metadata, ensure_ascii=False).encode("utf-8", "surrogatepass")) > most:
        raise BodyTooLarge(
            f"metadata: at most {most} bytes of JSON are accepted. Store larger data elsewhere, "
            "and its id here."
        )
    return metadata
