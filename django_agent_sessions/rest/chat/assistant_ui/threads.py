"""Threads: the client's requests, their representation, and their titles."""

from __future__ import annotations

from itertools import islice
from typing import Any

from django.db.models import Case, TextField, When
from django.db.models.functions import Cast
from django.db.models.lookups import LessThanOrEqual
from rest_framework import serializers

from django_agent_sessions.content import codec
from django_agent_sessions.content.dialects import displayable
from django_agent_sessions.governance.session_change import SessionChange, change
from django_agent_sessions.models import MAIN_BRANCH, Session, SessionMessage
from django_agent_sessions.models.fields import ContentJSONField
from django_agent_sessions.models.functions import OctetLength
from django_agent_sessions.models.stored_text import StoredText
from django_agent_sessions.models.titles import first_words, without_tool_results
from django_agent_sessions.queries.beginnings import said, said_columns
from django_agent_sessions.rest.serializers.fields import check_metadata_size, format_datetime
from django_agent_sessions.store import MAX_COMMENT, SessionStore

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
        return check_metadata_size(_require_object(value))


class ContentRequest(serializers.Serializer[Any]):
    """The new content of a message."""

    content = serializers.JSONField()

    def validate_content(self, value: Any) -> dict[str, Any]:
        return _require_object(value)


class ThreadFeedbackRequest(serializers.Serializer[Any]):
    """A rating of a message."""

    type = serializers.ChoiceField(choices=["positive", "negative"])
    comment = serializers.CharField(
        required=False, allow_null=True, allow_blank=True, max_length=MAX_COMMENT
    )


class MessageRequest(ContentRequest):
    """A message to store."""

    parent_id = serializers.CharField(required=False, allow_null=True, trim_whitespace=False)
    external_id = serializers.CharField(required=False, allow_null=True, trim_whitespace=False)
    parent_external_id = serializers.CharField(
        required=False, allow_null=True, trim_whitespace=False
    )
    format = serializers.RegexField(FORMAT_PATTERN, trim_whitespace=False)


class DeletionRequest(serializers.Serializer[Any]):
    """The ids of messages to delete."""

    message_ids = serializers.ListField(
        child=serializers.CharField(trim_whitespace=False), allow_empty=False, max_length=200
    )


class TitleRequest(serializers.Serializer[Any]):
    """A request for a thread's title."""

    thread_id = serializers.CharField()
    assistant_id = serializers.ChoiceField(["system/thread_title"])
    messages = serializers.JSONField()


def metadata_upto(most: int) -> Case:
    """Return the expression of a session's metadata; NULL if it has more bytes than this."""
    size = OctetLength(Cast("metadata", TextField()))
    metadata = StoredText("metadata", output_field=ContentJSONField())
    fits = When(LessThanOrEqual(size, most), then=metadata)
    return Case(fits, output_field=ContentJSONField(null=True))


def shown_title(session: Any) -> str:
    """Return the title, else the first words of the first user; empty if there are none."""
    return displayable(session.title) or session.opening_words or ""


def represent_thread(session: Session, metadata: Any) -> dict[str, Any]:
    """Represent a session as a thread."""
    return {
        "id": str(session.id),
        "title": shown_title(session) or None,
        "last_message_at": format_datetime(session.last_activity_at),
        "metadata": metadata,
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


_MAX_MESSAGES = 20
_MAX_READ = 60
"""How many messages are read until as many of them have a text."""
_MAX_CHARACTERS = 2000


def first_messages(session: Session, using: str) -> list[dict[str, Any]]:
    """Return the first messages of a session as the client sends them, without redacted content.

    Without the results of tools, which have the role of the user in some formats.
    """
    rows = SessionMessage.objects.using(using).filter(session=session, branch=MAIN_BRANCH)
    messages = without_tool_results(rows.filter(role__in=("user", "assistant"))).order_by("id")
    if codec.is_plain():
        messages = messages.exclude(text="")
    found = messages.values_list("role", *said_columns(_MAX_CHARACTERS))[:_MAX_READ]
    texts = ((role, said(_MAX_CHARACTERS, *begins)) for role, *begins in found)
    return [
        {"role": role, "content": [{"type": "text", "text": text}]}
        for role, text in islice((each for each in texts if each[1]), _MAX_MESSAGES)
    ]


def set_title(store: SessionStore, session: Session, title: str) -> str:
    """Set a title that was made from messages; keep another one. Return the current one.

    Sets none if the session was redacted after ``session`` was read, because the title may contain
    the redacted text. A later redaction empties it.
    """
    key = session.pk

    def apply(current: SessionChange) -> str:
        row = current.session
        if row.title or row.redaction_epoch != session.redaction_epoch:
            return str(row.title)
        return store.sessions.update(row, title=title, title_derived=True).title

    what = f"setting the title of session {key}"
    return change(key, apply, what=what, content=True, using=store.using).result


def title_of_messages(messages: object) -> str:
    """Return the first words of the first user, or an empty string."""
    for message in messages if isinstance(messages, list) else ():
        is_user = isinstance(message, dict) and message.get("role") == "user"
        text = displayable(" ".join(_texts(message.get("content")))) if is_user else ""
        if words := first_words(text):
            return words
    return ""


def _texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return [text for text in texts if isinstance(text, str)]
