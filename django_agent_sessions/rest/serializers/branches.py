"""Branches, snapshots and forks in requests and answers."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from django_agent_sessions.models import Branch, Snapshot
from django_agent_sessions.store.branching import MAIN_NAME

from .fields import IdField, MomentField, NumberField, ShownField, StrictSerializer
from .sessions import TitleField

MOST = 2**31 - 1
"""The largest position and number that there can be."""

_PLACE = {
    "oneOf": [
        {"type": "string", "format": "uuid"},
        {"type": "integer", "minimum": -1, "maximum": MOST},
    ]
}
_UNNAMED = "By default `branch-<number>`."


@extend_schema_field(_PLACE)
class PlaceField(serializers.Field[UUID | int, Any, Any, Any]):
    """A message by its id, or by its position; -1 is before the first."""

    def to_internal_value(self, data: Any) -> UUID | int:
        """Reads it."""
        if isinstance(data, int) and not isinstance(data, bool) and -1 <= data <= MOST:
            return data
        try:
            return UUID(data)
        except (ValueError, TypeError, AttributeError):
            hint = "Give the id of a message, or a position from -1."
            raise serializers.ValidationError(hint) from None


class _MessageField(serializers.UUIDField):
    """The id of a message; a number is none."""

    def to_internal_value(self, data: Any) -> UUID:
        if not isinstance(data, str):
            raise serializers.ValidationError("Give the id of a message.")
        found: UUID = super().to_internal_value(data)
        return found


class BranchSerializer(serializers.Serializer[Any]):
    """A branch of an agent's conversation."""

    number = serializers.IntegerField(help_text="0 is the main branch.")
    name = ShownField(help_text=f"The main one is `{MAIN_NAME}`.")
    kind = serializers.ChoiceField(
        choices=["", *Branch.Kind.values], help_text="How it came to be; empty for the main one."
    )
    parent = serializers.IntegerField(  # type: ignore[assignment] # a field, and no property
        help_text="The number of the branch that it left."
    )
    start = serializers.IntegerField(help_text="How many messages both had in common then.")
    length = serializers.IntegerField(help_text="How many messages it has, those included.")
    created_at = MomentField(allow_null=True, help_text="Null for the main one.")


class SetAsideSerializer(serializers.Serializer[Any]):
    """What was left behind."""

    branch = BranchSerializer(
        allow_null=True, help_text="The side branch that has it; null if there was nothing."
    )


class ComparisonSerializer(serializers.Serializer[Any]):
    """Two branches beside each other."""

    common = serializers.IntegerField(help_text="With how many same messages both begin.")
    left = serializers.IntegerField(help_text="How many messages the first one has.")
    right = serializers.IntegerField(help_text="How many the other one has.")


class RewindSerializer(StrictSerializer):
    """Where to go back to."""

    to = PlaceField(help_text="The last message that stays. By its id it is the one you saw.")
    # As it is given, because names are compared to the letter.
    name = IdField(trim_whitespace=False, help_text=_UNNAMED)


class BranchCreateSerializer(StrictSerializer):
    """What a branch begins with."""

    name = IdField(trim_whitespace=False, help_text=_UNNAMED)
    source = NumberField(  # type: ignore[assignment] # a field, and no property
        required=False,
        min_value=0,
        max_value=MOST,
        help_text="The number of the branch that it begins like; that of `at`, or the main one.",
    )
    at = PlaceField(required=False, help_text="The last message to begin with. By default all.")


class ForkSerializer(StrictSerializer):
    """What a fork begins with, and what it is called."""

    at = _MessageField(
        required=False,
        allow_null=True,
        help_text="The id of the last message to copy. By default all are.",
    )
    title = TitleField(required=False, help_text="By default the session's own.")
    external_id = IdField(
        help_text="An id of your own. If this fork was made with it already, that one is answered.",
    )


class SnapshotSerializer(serializers.ModelSerializer[Snapshot]):
    """An agent at one moment, without what it kept."""

    snapshot_id = ShownField(read_only=True, help_text="What the SDK calls it.")
    branch = serializers.IntegerField(read_only=True, help_text="The branch of its messages.")
    length = serializers.IntegerField(
        read_only=True, help_text="The position behind its last message."
    )
    created_at = MomentField(read_only=True)
    updated_at = MomentField(read_only=True)

    class Meta:
        model = Snapshot
        fields: ClassVar[list[str]] = [
            "id",
            "snapshot_id",
            "branch",
            "length",
            "created_at",
            "updated_at",
        ]
        read_only_fields = fields
