"""Sessions, their agents and orchestrators, in requests and answers."""

from __future__ import annotations

from typing import Any, ClassVar

from rest_framework import serializers

from django_agent_sessions.models import Session, SessionAgent, SessionMultiAgent
from django_agent_sessions.transcripts import displayable

from .fields import (
    FlagField,
    IdField,
    MomentField,
    ShownField,
    ShownJSONField,
    StrictSerializer,
    TextField,
    shown,
)

_STATE = "Only for those with the permission `view_sessionagent`."


class SessionRowSerializer(serializers.ModelSerializer[Session]):
    """A session in a list: what is known about it, and nothing that was said in it."""

    title = ShownField(read_only=True)
    owner = serializers.PrimaryKeyRelatedField[Any](
        read_only=True, allow_null=True, help_text="The user's id."
    )
    redactions = serializers.IntegerField(
        read_only=True, help_text="How often something was taken out."
    )
    created_at = MomentField(read_only=True)
    updated_at = MomentField(read_only=True)
    last_activity_at = MomentField(read_only=True)
    archived_at = MomentField(read_only=True, allow_null=True)
    expires_at = MomentField(read_only=True, allow_null=True)

    class Meta:
        model = Session
        fields: ClassVar[list[str]] = [
            "id",
            "session_id",
            "session_type",
            "external_id",
            "title",
            "owner",
            "message_count",
            "input_tokens",
            "output_tokens",
            "redactions",
            "legal_hold",
            "created_at",
            "updated_at",
            "last_activity_at",
            "archived_at",
            "expires_at",
        ]
        read_only_fields = fields


class SaidSerializer(serializers.Serializer[Any]):
    """How a message begins."""

    message = serializers.UUIDField(help_text="The id of the message.")
    role = serializers.CharField()
    text = serializers.CharField(help_text="At most 500 characters.")


class ForkedFromSerializer(serializers.Serializer[Any]):
    """What a session was forked from."""

    session = serializers.UUIDField(help_text="The id of the other session.")
    message = serializers.UUIDField(
        allow_null=True, help_text="The last message that was copied; null if all were."
    )


class AgentSerializer(serializers.ModelSerializer[SessionAgent]):
    """An agent of a session; its state is often internal, and not shown unless it is allowed."""

    created_at = MomentField(read_only=True)
    updated_at = MomentField(read_only=True)

    class Meta:
        model = SessionAgent
        fields: ClassVar[list[str]] = ["id", "agent_id", "dialect", "created_at", "updated_at"]
        read_only_fields = fields


class AgentStateSerializer(AgentSerializer):
    """An agent, with its state for those who may see it."""

    state = ShownJSONField(required=False, help_text=_STATE)
    conversation_manager_state = ShownJSONField(required=False, help_text=_STATE)

    class Meta(AgentSerializer.Meta):
        fields = [*AgentSerializer.Meta.fields, "state", "conversation_manager_state"]
        read_only_fields = fields


class MultiAgentSerializer(serializers.ModelSerializer[SessionMultiAgent]):
    """An orchestrator of a session, without its state."""

    created_at = MomentField(read_only=True)
    updated_at = MomentField(read_only=True)

    class Meta:
        model = SessionMultiAgent
        fields: ClassVar[list[str]] = ["id", "multi_agent_id", "kind", "created_at", "updated_at"]
        read_only_fields = fields


class MultiAgentStateSerializer(MultiAgentSerializer):
    """An orchestrator, with its state for those who may see it."""

    state = ShownJSONField(required=False, help_text=_STATE)

    class Meta(MultiAgentSerializer.Meta):
        fields = [*MultiAgentSerializer.Meta.fields, "state"]
        read_only_fields = fields


class SessionSerializer(SessionRowSerializer):
    """A session by itself."""

    metadata = serializers.SerializerMethodField()
    agents = AgentSerializer(many=True, read_only=True)
    first_text = SaidSerializer(read_only=True, allow_null=True)
    last_text = SaidSerializer(read_only=True, allow_null=True)
    forked_from = ForkedFromSerializer(
        source="fork",
        read_only=True,
        allow_null=True,
        help_text="Null also if you do not reach that session.",
    )

    class Meta(SessionRowSerializer.Meta):
        fields = [
            *SessionRowSerializer.Meta.fields,
            "metadata",
            "agents",
            "first_text",
            "last_text",
            "forked_from",
        ]
        read_only_fields = fields

    def get_metadata(self, session: Session) -> dict[str, Any]:
        """JSON for programs; what it means is the client's own affair."""
        found: dict[str, Any] = shown(session.metadata)
        return found


class TitleField(TextField):
    """The title of a session in a request."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(allow_blank=True, max_length=255, **kwargs)

    def to_internal_value(self, data: Any) -> str:
        """Reads a title."""
        if isinstance(data, str) and displayable(data) != data:
            raise serializers.ValidationError("The text holds characters that cannot be shown.")
        return str(super().to_internal_value(data))


class _MetadataField(serializers.DictField):
    """JSON for programs: an object."""


class SessionCreateSerializer(StrictSerializer):
    """What a session is made with."""

    external_id = IdField(
        help_text="An id of your own. If you have a session of this id, that one is answered.",
    )
    title = TitleField(required=False)
    metadata = _MetadataField(required=False)


class SessionChangeSerializer(StrictSerializer):
    """What may be changed of a session."""

    title = TitleField(required=False)
    metadata = _MetadataField(required=False, help_text="It replaces all that was there.")
    archived = FlagField(required=False)
    expires_at = MomentField(required=False, allow_null=True)
