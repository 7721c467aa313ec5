"""Fixtures of the tests of the page of a session."""

from __future__ import annotations

import pytest

from django_agent_sessions import audit
from django_agent_sessions.content.dialects import STRANDS
from django_agent_sessions.models import AuditEvent, Session
from tests.admin.people import staff


@pytest.fixture
def reader(client):
    user = staff("reader", "view_session", "read_transcript")
    client.force_login(user)
    return user


@pytest.fixture
def talker(session, store):
    """An agent of a Strands session, which has a title, so that no words appear twice."""
    Session.objects.filter(pk=session.id).update(title="A talk")
    return store.agents.open(session, "planner", dialect=STRANDS)


@pytest.fixture
def redaction(session):
    return audit.record(
        AuditEvent.Action.REDACTED, session=session.id, actor="the <officer>", reason="asked <b>for"
    )
