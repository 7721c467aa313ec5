"""Participants and share links in requests and responses."""

from __future__ import annotations

from typing import Any, ClassVar

from rest_framework import serializers

from django_agent_sessions.models import Participant, ShareLink

from .fields import (
    DisplayableField,
    StrictIntegerField,
    StrictSerializer,
    StrictTextField,
    UTCDateTimeField,
)
from .messages import MessageSerializer


class ParticipantSerializer(serializers.ModelSerializer[Participant]):
    """A participant of a session."""

    user = DisplayableField(source="user_id", read_only=True, help_text="The user's id.")
    added_by = DisplayableField(
        read_only=True, help_text="The id of the user who added the participant."
    )
    added_at = UTCDateTimeField(read_only=True)

    class Meta:
        model = Participant
        fields: ClassVar[list[str]] = ["id", "user", "role", "added_by", "added_at"]
        read_only_fields = fields


class ParticipantRequest(StrictSerializer):
    """A participant to add, or the new role of one."""

    user = StrictTextField(max_length=255, help_text="The user's id.")
    role = serializers.ChoiceField(choices=Participant.Role.values)


class ShareLinkSerializer(serializers.ModelSerializer[ShareLink]):
    """A share link, without its token."""

    created_by = DisplayableField(
        read_only=True, help_text="The id of the user who created the link."
    )
    expires_at = UTCDateTimeField(read_only=True)
    revoked_at = UTCDateTimeField(read_only=True, allow_null=True)
    created_at = UTCDateTimeField(read_only=True)

    class Meta:
        model = ShareLink
        fields: ClassVar[list[str]] = ["id", "expires_at", "revoked_at", "created_by", "created_at"]
        read_only_fields = fields


class NewShareLinkSerializer(ShareLinkSerializer):
    """A new share link, with its URL, which is not shown again."""

    url = serializers.CharField(read_only=True, help_text="Anybody who has it can read.")

    class Meta(ShareLinkSerializer.Meta):
        fields = [*ShareLinkSerializer.Meta.fields, "url"]
        read_only_fields = fields


class ShareLinkRequest(StrictSerializer):
    """A share link to create."""

    seconds = StrictIntegerField(min_value=1, help_text="For how long the link is valid.")


class SharedSessionSerializer(serializers.Serializer[Any]):
    """A page of a session that a link shows."""

    title = serializers.CharField()
    expires_at = UTCDateTimeField(help_text="When the link expires.")
    results = MessageSerializer(many=True)
    next = serializers.CharField(allow_null=True, help_text="The URL of the next page.")
    previous = serializers.CharField(allow_null=True, help_text="The URL of the page before.")
