"""Redaction in requests and answers."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from rest_framework import serializers

from django_agent_sessions import detectors
from django_agent_sessions.exceptions import MissingDependencyError
from django_agent_sessions.redaction import (
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
    FlagField,
    NumberField,
    PathKeyField,
    StrictSerializer,
    TextField,
    shown,
)

MAX_HITS = 1000
"""Hits in one answer; there may be more, and all are redacted."""


class _PathField(serializers.ListField):
    def to_internal_value(self, data: Any) -> Any:
        found = super().to_internal_value(data)
        if not all(type(key) is str or (type(key) is int and key >= 0) for key in found):
            raise serializers.ValidationError("Give the `path` of a part, as it is there.")
        return tuple(found)


class DetectorField(TextField):
    """The name of a detector."""


class RedactionRequest(StrictSerializer):
    """What both kinds of redaction take."""

    find = TextField(
        required=False,
        max_length=10_000,
        trim_whitespace=False,
        help_text="A text; it is found in any case and spelling.",
    )
    pattern = FlagField(
        default=False,
        help_text="Whether `find` is a regular expression; takes the permission `redact`.",
    )
    detectors = serializers.ListField(
        child=DetectorField(max_length=100),
        required=False,
        max_length=100,
        help_text="Names of detectors: what they find is redacted. Empty for all.",
    )
    reason = TextField(
        required=False,
        max_length=2000,
        help_text="Why; it is kept in the audit trail. Required unless `dry_run`.",
    )
    dry_run = FlagField(default=False, help_text="Only tell what would go.")

    def validate_detectors(self, names: list[str]) -> list[str]:
        """Refuses names that no detector has, or one that is not installed."""
        known = detectors.names()
        if any(name not in known for name in names):
            raise serializers.ValidationError(f"The detectors are: {', '.join(known)}.")
        try:
            detectors.load(names)
        except MissingDependencyError:
            detail = "Not all of these detectors are installed on this server."
            raise serializers.ValidationError(detail) from None
        return names

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Requires a reason of what is done."""
        if not attrs["dry_run"] and not attrs.get("reason"):
            raise serializers.ValidationError({"reason": ["Say why it is redacted."]})
        if attrs["pattern"] and "find" not in attrs:
            raise serializers.ValidationError({"find": ["Give the pattern."]})
        return attrs


class SessionRedactionRequest(RedactionRequest):
    """What to redact in a whole session: a text, or what detectors find."""

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Requires something to look for."""
        attrs = super().validate(attrs)
        if ("find" in attrs) == ("detectors" in attrs):
            raise serializers.ValidationError("Give either `find` or `detectors`.")
        return attrs

    def scope(self) -> Scope:
        """Makes the scope of a request that is valid."""
        given = self.validated_data
        if "find" in given:
            return Find(given["find"], given["pattern"])
        return Detect(given["detectors"])


class MessageRedactionRequest(RedactionRequest):
    """What to redact in a message: all of it, one part, a piece of a text, or what is found."""

    path = _PathField(
        child=PathKeyField(), required=False, max_length=20, help_text="That of a part."
    )
    start = NumberField(
        required=False, min_value=0, help_text="First character of the text at `path`."
    )
    end = NumberField(required=False, min_value=1, help_text="The character behind the last one.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Requires one kind of scope."""
        attrs = super().validate(attrs)
        kinds = [name for name in ("find", "detectors", "path") if name in attrs]
        if len(kinds) > 1:
            raise serializers.ValidationError("Give one of `find`, `detectors` and `path`.")
        spanned = {"start", "end"} & set(attrs)
        if spanned and (len(spanned) < 2 or "path" not in attrs):
            raise serializers.ValidationError("`start` and `end` go together, with a `path`.")
        if spanned and attrs["start"] >= attrs["end"]:
            raise serializers.ValidationError({"end": ["It must be greater than `start`."]})
        return attrs

    def scope(self, message: UUID) -> Scope:
        """Makes the scope of a request that is valid."""
        given = self.validated_data
        if "find" in given:
            return Find(given["find"], given["pattern"], message)
        if "detectors" in given:
            return Detect(given["detectors"], message)
        if "start" in given:
            return Span(message, given["path"], given["start"], given["end"])
        if "path" in given:
            return Block(message, given["path"])
        return WholeMessage(message)


class PlaceSerializer(serializers.Serializer[Place]):
    """Where something is."""

    kind = serializers.ChoiceField(
        choices=["message", "agent", "orchestrator", "session", "snapshot", "object", "branch"]
    )
    id = serializers.UUIDField(source="key")
    name = serializers.CharField()
    column = serializers.CharField()


class HitSerializer(serializers.Serializer[Hit]):
    """What is redacted."""

    place = PlaceSerializer()
    kind = serializers.CharField(help_text="What its mask says, such as EMAIL; or empty.")
    before = serializers.CharField(
        help_text="It, in its surroundings, or how it begins; only in a dry run."
    )
    after = serializers.CharField(help_text="The same with its mask.")


class RedactionSerializer(serializers.Serializer[Redaction]):
    """What was redacted, or would be."""

    dry_run = serializers.BooleanField()
    hits = HitSerializer(many=True)
    more_hits = serializers.IntegerField(help_text="How many hits are not listed.")
    kept = PlaceSerializer(many=True, help_text="Ids in which it is, which cannot be changed.")
    unread = PlaceSerializer(
        many=True,
        help_text="Messages of which a file is missing in its storage and was not looked into.",
    )
    messages = serializers.IntegerField(help_text="How many messages change.")
    states = serializers.IntegerField(
        help_text="How many states, snapshots, titles and metadata change."
    )
    redactions = serializers.IntegerField(help_text="The session's count after it.")

    def to_representation(self, instance: Redaction) -> dict[str, Any]:
        """Represents what was found; what is gone is not told any more."""
        return {
            "dry_run": instance.dry_run,
            "hits": [
                {
                    "place": _place(hit.place),
                    "kind": hit.kind,
                    "before": shown(hit.before) if instance.dry_run else "",
                    "after": shown(hit.after),
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
        "name": shown(place.name),
        "column": place.column,
    }


class ReasonRequest(StrictSerializer):
    """Why somebody needs to see an original."""

    reason = TextField(min_length=3, max_length=2000)
