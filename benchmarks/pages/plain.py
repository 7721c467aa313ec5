"""The API's pages as a Django project would write them by hand, and the site of the measurement."""

from __future__ import annotations

import json
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, JsonResponse
from django.urls import include, path

from benchmarks.scale.urls import urlpatterns as scale_urls
from django_agent_sessions.models import Session, SessionAgent, SessionMessage
from django_agent_sessions.models.titles import last_text
from django_agent_sessions.rest.chat.ai_sdk import chat_urls
from django_agent_sessions.values.prices import amount_text

from .chats import EchoChat

COUNT = 50


@login_required
def plain_sessions(request: HttpRequest) -> JsonResponse:
    """The page of the API's list, as a Django project would write it by hand."""
    mine = Session.objects.filter(owner=request.user).order_by("-last_activity_at", "-pk")
    rows: Any = mine.with_display_title().annotate(last_text=last_text())
    return JsonResponse({"results": [_session(row) for row in rows.defer("metadata")[:COUNT]]})


@login_required
def plain_messages(request: HttpRequest, key: Any) -> JsonResponse:
    """The page of the API's conversation, of texts only."""
    session = Session.objects.filter(owner=request.user).get(pk=key)
    agents = dict(SessionAgent.objects.filter(session=session).values_list("pk", "agent_id"))
    rows = SessionMessage.objects.filter(session=session).order_by("pk")
    found = [_text(row, agents[row.agent_id]) for row in rows[:COUNT]]
    return JsonResponse({"results": found})


def _session(row: Any) -> dict[str, Any]:
    return {
        "id": row.pk,
        "session_id": row.session_id,
        "session_type": row.session_type,
        "external_id": row.external_id,
        "title": row.title,
        "display_title": row.display_title,
        "last_text": row.last_text,
        "owner": None if row.owner_id is None else str(row.owner_id),
        "message_count": row.message_count,
        "error_count": row.error_count,
        "input_tokens": row.input_tokens,
        "output_tokens": row.output_tokens,
        "cache_read_tokens": row.cache_read_tokens,
        "cache_write_tokens": row.cache_write_tokens,
        "cost": None if row.cost is None else amount_text(row.cost),
        "redactions": row.redactions,
        "legal_hold": row.legal_hold,
        "created_at": row.created_at,
        "updated_at": row.updated_at,
        "last_activity_at": row.last_activity_at,
        "archived_at": row.archived_at,
        "expires_at": row.expires_at,
    }


def _text(row: SessionMessage, agent: str) -> dict[str, Any]:
    payload: Any = row.message
    return {
        "id": row.pk,
        "session": row.session_id,
        "agent": agent,
        "branch": row.branch,
        "position": row.message_id,
        "role": row.role,
        "author": row.author or "",
        "revision": row.revision,
        "run_id": row.run_id,
        "created_at": row.created_at,
        "updated_at": row.updated_at,
        "redacted_at": row.redacted_at,
        "input_tokens": row.input_tokens,
        "output_tokens": row.output_tokens,
        "cache_read_tokens": row.cache_read_tokens,
        "cache_write_tokens": row.cache_write_tokens,
        "latency_ms": row.latency_ms,
        "size": len(json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()),
        "truncated": False,
        "corrupt": False,
        "parts": [
            {
                "kind": "text",
                "path": ["content", number],
                "text": block["text"],
                "name": "",
                "call_id": "",
                "status": "",
                "data": None,
                "media_type": "",
                "size": None,
                "url": "",
                "parts": [],
            }
            for number, block in enumerate(payload["content"])
        ],
    }


urlpatterns = [
    *scale_urls,
    path("plain/sessions/", plain_sessions),
    path("plain/messages/<uuid:key>/", plain_messages),
    path("cloud/", include("django_agent_sessions.rest.chat.assistant_ui.urls")),
    *chat_urls(EchoChat, "chat"),
]
