"""Serializers of branches, snapshots and forks."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from django_agent_sessions.models import Branch, Snapshot
from django_agent_sessions.rest.converters import parse_uuid
from django_agent_sessions.store import MAIN_NAME
from django_agent_sessions.timeline.references import MAX_POSITION

from .fields import (
    DisplayableField,
    ReasonField,
    SessionIdField,
    StrictIntegerField,
    StrictSerializer,
    UTCDateTimeField,
)
from .sessions import TitleField

_POSITION_SCHEMA = {
    "oneOf": [
        {"type": "string", "format": "uuid"},
        {"type": "integer", "minimum": -1, "maximum": MAX_POSITION},
    ]
}
_DEFAULT_NAME = "Default: `branch-<number>`."


@extend_schema_field(_POSITION_SCHEMA)
class MessageReferenceField(serializers.Field[UUID | int, Any, Any, Any]):
    """A message by its id or its position; -1 is before the first message."""

    def to_internal_value(self, data: Any) -> UUID | int:
        if isinstance(data, int) and not isinstance(data, bool) and -1 <= data <= MAX_POSITION:
            return data
        message = parse_uuid(data) if isinstance(data, str) else None
        if message is None:
            hint = "Must be the id of a message, or a position of -1 or more."
            raise serializers.ValidationError(hint)
        return message


class _MessageField(serializers.UUIDField):
    """The id of a message; rejects numbers, which ``UUIDField`` accepts."""

    def to_internal_value(self, data: Any) -> UUID:
        if not isinstance(data, str):
            raise serializers.ValidationError("Must be the id of a message.")
        value: UUID = super().to_internal_value(data)
        return value


class BranchSerializer(serializers.Serializer[Any]):
    """A branch of an agent's conversation."""

    number = serializers.IntegerField(help_text="0 is the main branch.")
    name = DisplayableField(help_text=f"The main branch is `{MAIN_NAME}`.")
    kind = serializers.ChoiceField(
        choices=["", *Branch.Kind.values],
        help_text="How the branch was created; empty for the main branch.",
    )
    parent = serializers.IntegerField(  # type: ignore[assignment] # a field, not the property
        help_text="The number of the branch that it was created from."
    )
    start = serializers.IntegerField(
        help_text="How many messages it shared with its parent when it was created."
    )
    length = serializers.IntegerField(help_text="How many messages it has, shared ones included.")
    created_at = UTCDateTimeField(allow_null=True, help_text="Null for the main branch.")


class SetAsideSerializer(serializers.Serializer[Any]):
    """The side branch that keeps the messages of an earlier state."""

    branch = BranchSerializer(
        allow_null=True, help_text="The side branch; null if there was nothing to keep."
    )


class ComparisonSerializer(serializers.Serializer[Any]):
    """A comparison of two branches."""

    common = serializers.IntegerField(
        help_text="The number of identical messages at the start of both branches."
    )
    left = serializers.IntegerField(help_text="How many messages the first branch has.")
    right = serializers.IntegerField(help_text="How many messages the second branch has.")


class RewindSerializer(StrictSerializer):
    """The message to rewind to."""

    to = MessageReferenceField(
        help_text="The last message to keep. An id is safer than a position, which may change."
    )
    # Not trimmed, because names are compared exactly.
    name = SessionIdField(trim_whitespace=False, help_text=_DEFAULT_NAME)
    reason = ReasonField()


class BranchCreateSerializer(StrictSerializer):
    """The name and the messages of a new branch."""

    name = SessionIdField(trim_whitespace=False, help_text=_DEFAULT_NAME)
    source = StrictIntegerField(  # type: ignore[assignment] # a field, not the property
        required=False,
        min_value=0,
        max_value=MAX_POSITION,
        help_text="The number of the branch to copy. Default: the branch of `at`, or the main one.",
    )
    at = MessageReferenceField(
        required=False, help_text="The last message to copy. Default: all messages."
    )


class ForkSerializer(StrictSerializer):
    """The messages and the title of a fork."""

    at = _MessageField(
        required=False,
        allow_null=True,
        help_text="The id of the last message to copy. Default: all messages.",
    )
    title = TitleField(required=False, help_text="Default: the title of the session.")
    external_id = SessionIdField(
        help_text="The client's own id. If the same fork already exists with this id, it is "
        "returned.",
    )
    reason = ReasonField()


class SnapshotSerializer(serializers.ModelSerializer[Snapshot]):
    """A snapshot of an agent, without the state that it holds."""

    snapshot_id = DisplayableField(read_only=True, help_text="The id that the SDK uses.")
    branch = serializers.IntegerField(read_only=True, help_text="The branch of its messages.")
    length = serializers.IntegerField(
        read_only=True, help_text="The position after its last message."
    )
    created_at = UTCDateTimeField(read_only=True)
    updated_at = UTCDateTimeField(read_only=True)

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
