"""Feedback in requests and responses."""

from __future__ import annotations

from typing import Any, ClassVar

from rest_framework import serializers

from django_agent_sessions.models import MessageFeedback
from django_agent_sessions.store import MAX_COMMENT

from .fields import DisplayableField, StrictIntegerField, StrictSerializer, UTCDateTimeField

_VALUE = "1 for good, -1 for bad, 0 for a comment without a rating."


class FeedbackRequest(StrictSerializer):
    """Feedback to give."""

    value = StrictIntegerField(min_value=-1, max_value=1, help_text=_VALUE)
    comment = serializers.CharField(
        required=False, default="", allow_blank=True, max_length=MAX_COMMENT
    )


class FeedbackSerializer(serializers.ModelSerializer[MessageFeedback]):
    """Feedback on a message."""

    message: Any = serializers.UUIDField(source="message_id", read_only=True)
    user = DisplayableField(read_only=True, help_text="The user's key; empty if it was no user.")
    source = DisplayableField(  # type: ignore[assignment] # a field, not the argument
        read_only=True, help_text="`user`, `reviewer`, or the name of a program."
    )
    value = serializers.IntegerField(read_only=True, help_text=_VALUE)
    comment = DisplayableField(read_only=True)
    created_at = UTCDateTimeField(read_only=True)
    updated_at = UTCDateTimeField(read_only=True)

    class Meta:
        model = MessageFeedback
        fields: ClassVar[list[str]] = [
            "id",
            "message",
            "user",
            "source",
            "value",
            "comment",
            "created_at",
            "updated_at",
        ]
        read_only_fields = fields
