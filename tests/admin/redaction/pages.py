"""What tests do on the page that redacts, and what they look at afterwards."""

from __future__ import annotations

import re
from html import unescape

from django.urls import reverse

from django_agent_sessions.models import (
    AuditEvent,
    Session,
    SessionAgent,
    SessionMessage,
    SessionMultiAgent,
)

SECRET = "planted-secret"
ENOUGH = ("view_session", "read_transcript", "redact")
TEXT = {"what": "text", "text": SECRET}


def url_of(session) -> str:
    return reverse("admin:agent_sessions_session_redact", args=[session.id])


def message(position: int) -> SessionMessage:
    return SessionMessage.objects.get(message_id=position, session__session_id="talk")


def preview(browser, session, **data) -> str:
    answer = browser.post(url_of(session), {"step": "preview", **data})
    assert answer.status_code == 200
    return str(answer.content.decode())


def fields(page: str) -> dict[str, list[str]]:
    """The hidden fields of the form that confirms."""
    form = re.search(r'<form class="as-redact-confirm.*?</form>', page, re.DOTALL)
    assert form is not None, "there is nothing to confirm"
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', form[0]):
        found.setdefault(name, []).append(unescape(value))
    return found


def confirm(browser, session, page: str, reason: str = "as she asked", **changes):
    return browser.post(url_of(session), {**fields(page), "reason": reason, **changes})


def stored() -> str:
    """Everything that a redaction may change."""
    tables = (Session, SessionAgent, SessionMessage, SessionMultiAgent)
    return str([list(table._base_manager.order_by("pk").values()) for table in tables])


def shown(page: str) -> str:
    """A page's text as people read it."""
    return unescape(re.sub(r"<[^>]+>", "", page))


def redactions() -> list[AuditEvent]:
    return list(AuditEvent.objects.filter(action=AuditEvent.Action.REDACTED))
