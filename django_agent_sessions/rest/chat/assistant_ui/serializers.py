"""Serializers of the client's requests, and the representation of threads."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from django_agent_sessions.content.dialects import displayable
from django_agent_sessions.models import Session
from django_agent_sessions.rest.serializers.fields import format_datetime
from django_agent_sessions.values.records import SessionRecord

FORMAT_PATTERN = r"\A[A-Za-z0-9][A-Za-z0-9._/-]{0,63}\Z"
"""The pattern of format names; the client's formats are ``ai-sdk/v6`` and ``aui/v0``."""

_DEFAULT = "default"
"""The name of the only project and the only workspace."""


class ThreadRequest(serializers.Serializer[Any]):
    """A thread to create or change. Unknown fields of newer clients are ignored."""

    title = serializers.CharField(
        required=False, allow_null=True, allow_blank=True, trim_whitespace=False
    )
    external_id = serializers.CharField(required=False, allow_null=True, trim_whitespace=False)
    metadata = serializers.JSONField(required=False, allow_null=True)
    is_archived = serializers.BooleanField(required=False)

    def validate_metadata(self, value: Any) -> dict[str, Any]:
        if value is None:
            return {}
        return _require_object(value)


class ContentRequest(serializers.Serializer[Any]):
    """The new content of a message."""

    content = serializers.JSONField()

    def validate_content(self, value: Any) -> dict[str, Any]:
        return _require_object(value)


class MessageRequest(ContentRequest):
    """A message to store."""

    parent_id = serializers.CharField(required=False, allow_null=True, trim_whitespace=False)
    format = serializers.RegexField(FORMAT_PATTERN, trim_whitespace=False)


class TitleRequest(serializers.Serializer[Any]):
    """A request for a thread's title."""

    thread_id = serializers.CharField()
    assistant_id = serializers.ChoiceField(["system/thread_title"])
    messages = serializers.JSONField()


def represent_thread(session: Session | SessionRecord) -> dict[str, Any]:
    """Represent a session as a thread."""
    return {
        "id": str(session.id),
        "title": displayable(session.title) or None,
        "last_message_at": format_datetime(session.last_activity_at),
        "metadata": session.metadata,
        "external_id": session.external_id,
        "project_id": _DEFAULT,
        "workspace_id": _DEFAULT,
        "created_at": format_datetime(session.created_at),
        "updated_at": format_datetime(session.updated_at),
        "is_archived": session.archived_at is not None,
    }


def _require_object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise serializers.ValidationError("Must be a JSON object.")
    return value
