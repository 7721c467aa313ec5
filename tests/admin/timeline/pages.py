"""What tests do on the pages of a session's past, and what they look at afterwards."""

from __future__ import annotations

import re
from html import unescape

from django.urls import reverse

from django_agent_sessions.models import AuditEvent, SessionMessage
from django_agent_sessions.store import SessionStore
from tests.admin.transcripts import shown

Action = AuditEvent.Action


def url(talk, name: str, /, *keys, **query) -> str:
    return reverse(f"admin:agent_sessions_session_{name}", args=[talk.session, *keys], query=query)


def key(agent, position: int, branch: int = 0):
    return SessionMessage.objects.get(agent=agent.id, branch=branch, message_id=position).pk


def first(pattern: str, page: str) -> str:
    """The first thing in a page that a pattern finds."""
    found = re.search(pattern, page)
    assert found, page[page.index("as-root") :]
    return unescape(found[1])


def confirmed(client, address: str) -> str:
    """Says yes on a page that asks, and gives the page that it leads to."""
    page = shown(client, address)
    seen = first(r'name="seen" value="([^"]*)"', page)
    answer = client.post(address, {"seen": seen}, follow=True)
    assert answer.status_code == 200
    assert answer.redirect_chain
    text: str = answer.content.decode()
    return text


def words(agent, branch: int = 0) -> list[str]:
    payloads = SessionStore().payloads(agent.on_branch(branch))
    return [payload["content"][0]["text"].removeprefix("word ") for payload in payloads]


def events(action) -> list[AuditEvent]:
    return list(AuditEvent.objects.filter(action=action))
