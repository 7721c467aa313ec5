"""Parts of messages beside plain text, and the endpoints that give them."""

from __future__ import annotations

import json

from django.utils import timezone

from django_agent_sessions.models import SessionMessage
from tests.admin.transcripts import page_url
from tests.sealed import update_content

PNG = b"\x89PNG\r\n\x1a\n and pixels"


def image(data, file_format="png"):
    return {"image": {"format": file_format, "source": {"bytes": data}}}


def endpoint(name: str, message=None, session_id: str = "session-1") -> str:
    key = message or SessionMessage.objects.order_by("-id")[0].pk
    return f"{page_url(session_id).removesuffix('change/')}messages/{key}/{name}/"


def media(client, *path, **query):
    return client.get(endpoint("media"), {"path": json.dumps(path), **query})


def redact(message_id: int, redaction, payload, **columns) -> None:
    rows = SessionMessage.objects.filter(message_id=message_id)
    columns |= {"redacted_at": timezone.now(), "redaction": redaction.pk}
    update_content(rows, {"message": payload}, **columns)
