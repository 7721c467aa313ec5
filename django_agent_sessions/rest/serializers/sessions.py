"""Serializers of sessions, their agents and orchestrators, and their usage."""

from __future__ import annotations

from typing import Any, ClassVar

from rest_framework import serializers

from django_agent_sessions.content.dialects import displayable
from django_agent_sessions.models import Session, SessionAgent, SessionMultiAgent
from django_agent_sessions.values.chosen_classes import chosen_class

from .fields import (
    CostField,
    DisplayableField,
    DisplayableJSONField,
    SessionIdField,
    StrictBooleanField,
    StrictSerializer,
    StrictTextField,
    UTCDateTimeField,
    check_metadata_size,
    displayable_json,
)

_COST = "By the prices at the time of each message; null if no model with a price answered."
_CACHE_READ = "Those of the input tokens that were read from a prompt cache; null if unknown."
_CACHE_WRITE = "Those of the input tokens that were written to a prompt cache; null if unknown."
_PRESENT_COST = "By the present prices; null if no model with a price answered."
_STATE = "Only for users with the permission `view_sessionagent`."


class SaidSerializer(serializers.Serializer[Any]):
    """The start of a message's text."""

    message = serializers.UUIDField(help_text="The id of the message.")
    role = serializers.CharField()
    text = serializers.CharField(help_text="At most 500 characters.")


class SessionRowSerializer(serializers.ModelSerializer[Session]):
    """A session in a list, with the last text of its messages."""

    title = DisplayableField(read_only=True)
    display_title = DisplayableField(
        read_only=True,
        help_text="The title, else the first words of the first user's message, else the session "
        "id.",
    )
    last_text = SaidSerializer(
        read_only=True, allow_null=True, help_text="The last text of the conversation."
    )
    owner = serializers.CharField(
        source="owner_id", read_only=True, allow_null=True, help_text="The user's id."
    )
    cache_read_tokens = serializers.IntegerField(
        read_only=True, allow_null=True, help_text=_CACHE_READ
    )
    cache_write_tokens = serializers.IntegerField(
        read_only=True, allow_null=True, help_text=_CACHE_WRITE
    )
    cost = CostField(read_only=True, allow_null=True, help_text=_COST)
    error_count = serializers.IntegerField(
        read_only=True, help_text="The number of messages that report an error."
    )
    redactions = serializers.IntegerField(
        read_only=True, help_text="How often the session was redacted."
    )
    created_at = UTCDateTimeField(read_only=True)
    updated_at = UTCDateTimeField(read_only=True)
    last_activity_at = UTCDateTimeField(read_only=True)
    archived_at = UTCDateTimeField(read_only=True, allow_null=True)
    expires_at = UTCDateTimeField(read_only=True, allow_null=True)

    class Meta:
        model = Session
        fields: ClassVar[list[str]] = [
            "id",
            "session_id",
            "session_type",
            "external_id",
            "title",
            "display_title",
            "last_text",
            "owner",
            "message_count",
            "error_count",
            "input_tokens",
            "output_tokens",
            "cache_read_tokens",
            "cache_write_tokens",
            "cost",
            "redactions",
            "legal_hold",
            "created_at",
            "updated_at",
            "last_activity_at",
            "archived_at",
            "expires_at",
        ]
        read_only_fields = fields

    @classmethod
    def setup_eager_loading(cls, sessions: Any) -> Any:
        """Return the sessions of a list with what further fields read: ``select_related("case")``.

        Called for the API's list only, after its filters.
        """
        return sessions


class ForkedFromSerializer(serializers.Serializer[Any]):
    """The session and message that a fork was created from."""

    session = serializers.UUIDField(help_text="The id of the other session.")
    message = serializers.UUIDField(
        allow_null=True, help_text="The last message that was copied; null for all messages."
    )


class AgentSerializer(serializers.ModelSerializer[SessionAgent]):
    """An agent of a session, without its state, which is often internal."""

    created_at = UTCDateTimeField(read_only=True)
    updated_at = UTCDateTimeField(read_only=True)

    class Meta:
        model = SessionAgent
        fields: ClassVar[list[str]] = ["id", "agent_id", "dialect", "created_at", "updated_at"]
        read_only_fields = fields


class AgentStateSerializer(AgentSerializer):
    """An agent, with its state for users who may see it."""

    state = DisplayableJSONField(required=False, help_text=_STATE)
    conversation_manager_state = DisplayableJSONField(required=False, help_text=_STATE)

    class Meta(AgentSerializer.Meta):
        fields = [*AgentSerializer.Meta.fields, "state", "conversation_manager_state"]
        read_only_fields = fields


class MultiAgentSerializer(serializers.ModelSerializer[SessionMultiAgent]):
    """An orchestrator of a session, without its state."""

    created_at = UTCDateTimeField(read_only=True)
    updated_at = UTCDateTimeField(read_only=True)

    class Meta:
        model = SessionMultiAgent
        fields: ClassVar[list[str]] = ["id", "multi_agent_id", "kind", "created_at", "updated_at"]
        read_only_fields = fields


class MultiAgentStateSerializer(MultiAgentSerializer):
    """An orchestrator, with its state for users who may see it."""

    state = DisplayableJSONField(required=False, help_text=_STATE)

    class Meta(MultiAgentSerializer.Meta):
        fields = [*MultiAgentSerializer.Meta.fields, "state"]
        read_only_fields = fields


class SessionSerializer(SessionRowSerializer):
    """A session with its agents, metadata and first and last text."""

    metadata = serializers.SerializerMethodField()
    agents = AgentSerializer(many=True, read_only=True)
    first_text = SaidSerializer(read_only=True, allow_null=True)
    forked_from = ForkedFromSerializer(
        source="fork",
        read_only=True,
        allow_null=True,
        help_text="Also null if the user has no access to that session.",
    )

    class Meta(SessionRowSerializer.Meta):
        fields = [
            *SessionRowSerializer.Meta.fields,
            "metadata",
            "agents",
            "first_text",
            "forked_from",
        ]
        read_only_fields = fields

    def get_metadata(self, session: Session) -> dict[str, Any]:
        """JSON of the client, which the server does not interpret."""
        metadata: dict[str, Any] = displayable_json(session.metadata)
        return metadata


def chosen_serializer(serializer: type[Any]) -> type[Any]:
    """Return what ``AGENT_SESSIONS`` has in place of a serializer of sessions."""
    if serializer is SessionSerializer:
        return chosen_class("SESSION_SERIALIZER", SessionSerializer)
    if serializer is SessionRowSerializer:
        return chosen_class("SESSION_ROW_SERIALIZER", SessionRowSerializer)
    return serializer


class AgentUsageSerializer(serializers.Serializer[Any]):
    """The usage of one agent."""

    agent = serializers.CharField(help_text="The id of the agent.")
    messages = serializers.IntegerField()
    errors = serializers.IntegerField(  # type: ignore[assignment] # a field, not the property
        help_text="The number of messages that report an error."
    )
    input_tokens = serializers.IntegerField(
        allow_null=True, help_text="As the SDK reported; null if it reported none."
    )
    output_tokens = serializers.IntegerField(allow_null=True)
    cache_read_tokens = serializers.IntegerField(allow_null=True, help_text=_CACHE_READ)
    cache_write_tokens = serializers.IntegerField(allow_null=True, help_text=_CACHE_WRITE)
    cost = CostField(allow_null=True, help_text=_PRESENT_COST)


class UsageSerializer(serializers.Serializer[Any]):
    """The usage of a session."""

    messages = serializers.IntegerField()
    errors = serializers.IntegerField(  # type: ignore[assignment] # a field, not the property
        help_text="The number of messages that report an error."
    )
    input_tokens = serializers.IntegerField(
        allow_null=True, help_text="As the SDK reported; null if it reported none."
    )
    output_tokens = serializers.IntegerField(allow_null=True)
    cache_read_tokens = serializers.IntegerField(allow_null=True, help_text=_CACHE_READ)
    cache_write_tokens = serializers.IntegerField(allow_null=True, help_text=_CACHE_WRITE)
    cost = CostField(allow_null=True, help_text=_PRESENT_COST)
    currency = serializers.CharField(help_text="The currency of costs; may be empty.")
    agents = AgentUsageSerializer(many=True)


class TitleField(StrictTextField):
    """The title of a session in a request."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(allow_blank=True, max_length=255, **kwargs)

    def to_internal_value(self, data: Any) -> str:
        if isinstance(data, str) and displayable(data) != data:
            raise serializers.ValidationError("Contains characters that cannot be displayed.")
        return str(super().to_internal_value(data))


class _MetadataField(serializers.DictField):
    """A JSON object of the client."""

    def to_internal_value(self, data: Any) -> Any:
        return check_metadata_size(super().to_internal_value(data))


class SessionCreateSerializer(StrictSerializer):
    """The fields of a new session."""

    external_id = SessionIdField(
        help_text="The client's own id. If the user already has a session with this id, it is "
        "returned.",
    )
    title = TitleField(required=False)
    metadata = _MetadataField(required=False)


class SessionChangeSerializer(StrictSerializer):
    """The fields of a session that can be changed."""

    title = TitleField(required=False)
    metadata = _MetadataField(required=False, help_text="Replaces the whole object.")
    archived = StrictBooleanField(required=False)
    expires_at = UTCDateTimeField(required=False, allow_null=True)
