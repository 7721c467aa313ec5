"""Serializers of redactions."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from rest_framework import serializers

from django_agent_sessions.content import detectors
from django_agent_sessions.exceptions import MissingDependencyError
from django_agent_sessions.governance.redaction import (
    Block,
    Detect,
    Find,
    Hit,
    Place,
    Redaction,
    Scope,
    Span,
    WholeMessage,
)

from .fields import (
    PathKeyField,
    StrictBooleanField,
    StrictIntegerField,
    StrictSerializer,
    StrictTextField,
    displayable_json,
)

MAX_HITS = 1000
"""How many hits a response lists; all hits are redacted."""


class _PathField(serializers.ListField):
    def to_internal_value(self, data: Any) -> Any:
        keys = super().to_internal_value(data)
        if not all(type(key) is str or (type(key) is int and key >= 0) for key in keys):
            raise serializers.ValidationError("Must be the `path` of a part, unchanged.")
        return tuple(keys)


class DetectorField(StrictTextField):
    """The name of a detector."""


class RedactionRequest(StrictSerializer):
    """The fields that redactions of sessions and of messages share."""

    find = StrictTextField(
        required=False,
        max_length=10_000,
        trim_whitespace=False,
        help_text="A text; case, whitespace, escaping and Unicode form do not matter.",
    )
    pattern = StrictBooleanField(
        default=False,
        help_text="Whether `find` is a regular expression; requires the permission `redact`.",
    )
    detectors = serializers.ListField(
        child=DetectorField(max_length=100),
        required=False,
        max_length=100,
        help_text="The names of the detectors to use. Empty for all.",
    )
    reason = StrictTextField(
        required=False,
        max_length=2000,
        help_text="The reason, kept in the audit trail. Required unless `dry_run`.",
    )
    dry_run = StrictBooleanField(default=False, help_text="Only preview the redaction.")

    def validate_detectors(self, names: list[str]) -> list[str]:
        """Reject unknown detectors, and those whose dependency is not installed."""
        available = detectors.names()
        if any(name not in available for name in names):
            raise serializers.ValidationError(f"Must be detectors of: {', '.join(available)}.")
        try:
            detectors.load(names)
        except MissingDependencyError:
            detail = "One of these detectors is not installed on this server."
            raise serializers.ValidationError(detail) from None
        return names

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if not attrs["dry_run"] and not attrs.get("reason"):
            raise serializers.ValidationError({"reason": ["Required unless `dry_run` is true."]})
        if attrs["pattern"] and "find" not in attrs:
            raise serializers.ValidationError({"find": ["Required if `pattern` is true."]})
        return attrs


class SessionRedactionRequest(RedactionRequest):
    """What to redact in a whole session: a text, or the findings of detectors."""

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        attrs = super().validate(attrs)
        if ("find" in attrs) == ("detectors" in attrs):
            raise serializers.ValidationError("Send either `find` or `detectors`.")
        return attrs

    def scope(self) -> Scope:
        """Return the scope of a valid request."""
        data = self.validated_data
        if "find" in data:
            return Find(data["find"], data["pattern"])
        return Detect(data["detectors"])


class MessageRedactionRequest(RedactionRequest):
    """What to redact in a message: all of it, one part, a range of a text, or findings."""

    path = _PathField(
        child=PathKeyField(), required=False, max_length=20, help_text="The path of a part."
    )
    start = StrictIntegerField(
        required=False, min_value=0, help_text="The first character of the text at `path`."
    )
    end = StrictIntegerField(
        required=False, min_value=1, help_text="The end of the range, exclusive."
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        attrs = super().validate(attrs)
        kinds = [name for name in ("find", "detectors", "path") if name in attrs]
        if len(kinds) > 1:
            raise serializers.ValidationError("Send only one of `find`, `detectors` and `path`.")
        bounds = {"start", "end"} & set(attrs)
        if bounds and (len(bounds) < 2 or "path" not in attrs):
            raise serializers.ValidationError("`start` and `end` require each other and `path`.")
        if bounds and attrs["start"] >= attrs["end"]:
            raise serializers.ValidationError({"end": ["Must be greater than `start`."]})
        return attrs

    def scope(self, message: UUID) -> Scope:
        """Return the scope of a valid request."""
        data = self.validated_data
        if "find" in data:
            return Find(data["find"], data["pattern"], message)
        if "detectors" in data:
            return Detect(data["detectors"], message)
        if "start" in data:
            return Span(message, data["path"], data["start"], data["end"])
        if "path" in data:
            return Block(message, data["path"])
        return WholeMessage(message)


class PlaceSerializer(serializers.Serializer[Place]):
    """The place of a hit."""

    kind = serializers.ChoiceField(
        choices=["message", "agent", "orchestrator", "session", "snapshot", "object", "branch"]
    )
    id = serializers.UUIDField(source="key")
    name = serializers.CharField()
    column = serializers.CharField()


class HitSerializer(serializers.Serializer[Hit]):
    """A hit of a redaction."""

    place = PlaceSerializer()
    kind = serializers.CharField(
        help_text="The kind that the mask names, such as EMAIL; may be empty."
    )
    before = serializers.CharField(
        help_text="The hit with the text around it, or its start; only in a dry run."
    )
    after = serializers.CharField(help_text="The same text with the mask.")


class RedactionSerializer(serializers.Serializer[Redaction]):
    """The result of a redaction or of its preview."""

    dry_run = serializers.BooleanField()
    hits = HitSerializer(many=True)
    more_hits = serializers.IntegerField(help_text="How many hits are not listed.")
    kept = PlaceSerializer(
        many=True, help_text="Ids that contain a hit and are kept, because programs use them."
    )
    unread = PlaceSerializer(
        many=True,
        help_text="Messages with a file that is missing from its storage and was not searched.",
    )
    messages = serializers.IntegerField(help_text="How many messages change.")
    states = serializers.IntegerField(
        help_text="How many states, snapshots, titles and metadata change."
    )
    redactions = serializers.IntegerField(
        help_text="How often the session was redacted, this redaction included."
    )

    def to_representation(self, instance: Redaction) -> dict[str, Any]:
        """Represent the result; only a preview contains the text before."""
        return {
            "dry_run": instance.dry_run,
            "hits": [
                {
                    "place": _place(hit.place),
                    "kind": hit.kind,
                    "before": displayable_json(hit.before) if instance.dry_run else "",
                    "after": displayable_json(hit.after),
                }
                for hit in instance.hits[:MAX_HITS]
            ],
            "more_hits": max(0, len(instance.hits) - MAX_HITS),
            "kept": [_place(place) for place in instance.kept[:MAX_HITS]],
            "unread": [_place(place) for place in instance.unread[:MAX_HITS]],
            "messages": instance.messages,
            "states": instance.states,
            "redactions": instance.epoch,
        }


def _place(place: Place) -> dict[str, Any]:
    return {
        "kind": place.kind,
        "id": str(place.key),
        "name": displayable_json(place.name),
        "column": place.column,
    }


class ReasonRequest(StrictSerializer):
    """The reason for reading an original."""

    reason = StrictTextField(min_length=3, max_length=2000)
