"""The page of a session in projects that are set up in another way."""

from __future__ import annotations

from datetime import datetime

import pytest
from django.db import connection

from django_agent_sessions.admin.transcript.annotations import redaction_note
from django_agent_sessions.content.dialects import STRANDS
from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.models import AuditEvent, SessionMessage
from django_agent_sessions.values.records import AgentState
from tests.admin.people import staff
from tests.admin.transcripts import fragment_url, page_url, said, shown


def test_moments_without_a_time_zone_are_told_as_they_are(settings):
    settings.USE_TZ = False
    moment = datetime(2026, 3, 1, 14, 5)

    assert "2026-03-01 14:05 CST." in redaction_note(moment, None)


@pytest.mark.django_db
@pytest.mark.skipif(connection.vendor != "sqlite", reason="the zone of a connection is settled")
def test_a_project_without_time_zones_reads_a_redacted_conversation(
    client, session, store, settings
):
    agent = store.agents.open(session, "planner", dialect=STRANDS)
    store.append(agent, said("user", "a secret word"))
    redact(session.id, Find("secret"), reason="asked for")
    client.force_login(staff("reader", "view_session", "read_transcript"))
    settings.USE_TZ = False

    page = shown(client, page_url("session-1"))

    assert "asked for" in page
    assert "Figures by agent" in page


class Replicated:
    """Sends whatever names no database to a replica, which is not even there."""

    def db_for_read(self, model, **hints):
        return "replica" if model._meta.app_label == "agent_sessions" else None

    def db_for_write(self, model, **hints):
        return "default"


@pytest.mark.django_db
def test_everything_is_read_where_it_is_written_and_recorded(client, session, store, settings):
    agent = store.agents.open(session, "planner", dialect=STRANDS, data=AgentState({"a": 1}))
    store.append(agent, said("user", "a secret word"))
    store.open("session-2")
    redact(session.id, Find("secret"), reason="asked for")
    client.force_login(staff("auditor", "view_session", "read_transcript"))
    key = SessionMessage.objects.get().pk
    page, part = page_url("session-1"), fragment_url("session-1")
    base = page.removesuffix("change/")
    settings.DATABASE_ROUTERS = [Replicated()]

    assert "a <span" in shown(client, page)
    shown(client, page, agent=agent.id, at=key)
    shown(client, part)
    for url in (
        f"{base}messages/{key}/raw/",
        f"{base}states/state/{agent.id}/",
        f"{base}states/metadata/{session.id}/",
    ):
        shown(client, url)
    assert client.get(f"{base}messages/{key}/text/?path=[]").status_code in (200, 404)
    assert "1 message found" in client.post(f"{base}find/", {"query": "word"}).content.decode()
    settings.DATABASE_ROUTERS = []
    assert AuditEvent.objects.filter(session=session.id).count() >= 7
