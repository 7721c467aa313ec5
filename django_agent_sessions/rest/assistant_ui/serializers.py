"""What the client may send, and what it is given."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from django_agent_sessions.models import Session
from django_agent_sessions.records import SessionRecord
from django_agent_sessions.rest.serializers.fields import moment
from django_agent_sessions.transcripts import displayable

FORMAT = r"\A[A-Za-z0-9][A-Za-z0-9._/-]{0,63}\Z"
"""What a format may be called; the client's are ``ai-sdk/v6`` and ``aui/v0``."""

_DEFAULT = "default"
"""The name of the one project and the one workspace, of which we have none."""


class ThreadRequest(serializers.Serializer[Any]):
    """A thread that is made or changed. What a newer client adds is passed over."""

    title = serializers.CharField(
        required=False, allow_null=True, allow_blank=True, trim_whitespace=False
    )
    external_id = serializers.CharField(required=False, allow_null=True, trim_whitespace=False)
    metadata = serializers.JSONField(required=False, allow_null=True)
    is_archived = serializers.BooleanField(required=False)

    def validate_metadata(self, value: Any) -> dict[str, Any]:
        """Refuses what is no object."""
        if value is None:
            return {}
        return _an_object(value)


class ContentRequest(serializers.Serializer[Any]):
    """What a message is changed to."""

    content = serializers.JSONField()

    def validate_content(self, value: Any) -> dict[str, Any]:
        """Refuses what is no object."""
        return _an_object(value)


class MessageRequest(ContentRequest):
    """A message that is stored."""

    parent_id = serializers.CharField(required=False, allow_null=True, trim_whitespace=False)
    format = serializers.RegexField(FORMAT, trim_whitespace=False)


class TitleRequest(serializers.Serializer[Any]):
    """A thread that is to be given a title."""

    thread_id = serializers.CharField()
    assistant_id = serializers.ChoiceField(["system/thread_title"])
    messages = serializers.JSONField()


def shown_thread(session: Session | SessionRecord) -> dict[str, Any]:
    """Shows a session as a thread."""
    return {
        "id": str(session.id),
        "title": displayable(session.title) or None,
        "last_message_at": moment(session.last_activity_at),
        "metadata": session.metadata,
        "external_id": session.external_id,
        "project_id": _DEFAULT,
        "workspace_id": _DEFAULT,
        "created_at": moment(session.created_at),
        "updated_at": moment(session.updated_at),
        "is_archived": session.archived_at is not None,
    }


def _an_object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise serializers.ValidationError("Give a JSON object.")
    return value
