"""Messages for the tests of the page of a session, and its URLs."""

from __future__ import annotations

from django.urls import reverse

from django_agent_sessions.models import Session


def said(role: str, *blocks):
    """A message of Strands; a text stands for its block."""
    return {
        "role": role,
        "content": [{"text": block} if isinstance(block, str) else block for block in blocks],
    }


def call(key: str, name: str, **arguments):
    """A block that calls a tool."""
    return {"toolUse": {"toolUseId": key, "name": name, "input": arguments}}


def result(key: str, text: str, status: str = "success"):
    """A block that answers a call."""
    return {"toolResult": {"toolUseId": key, "status": status, "content": [{"text": text}]}}


def page_url(session_id: str) -> str:
    """The page of a session."""
    key = Session.objects.get(session_id=session_id).pk
    return reverse("admin:agent_sessions_session_change", args=[key])


def fragment_url(session_id: str) -> str:
    """The endpoint of further messages."""
    key = Session.objects.get(session_id=session_id).pk
    return reverse("admin:agent_sessions_session_messages", args=[key])


def shown(client, url: str, **query) -> str:
    """What a page shows."""
    answer = client.get(url, query)
    assert answer.status_code == 200
    text: str = answer.content.decode()
    return text
