"""Who may not read sees no content, and whoever reads is recorded."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_agent_sessions import audit
from django_agent_sessions.content.dialects import STRANDS
from django_agent_sessions.models import AuditEvent, Session, SessionAgent, SessionMessage
from django_agent_sessions.values.records import AgentState
from tests.admin.people import staff
from tests.admin.transcripts import call, fragment_url, page_url, result, said, shown

pytestmark = pytest.mark.django_db


def test_who_may_not_see_sessions_finds_nothing(client, talker, store):
    store.append(talker, said("user", "secret"))
    client.force_login(staff("nobody", "read_transcript"))

    for url in (page_url("session-1"), fragment_url("session-1")):
        assert client.get(url).status_code == 404


def test_who_may_not_read_sees_figures_and_no_content(client, store, ada):
    session = store.open("session-1", title="planted title", metadata={"note": "planted metadata"})
    state = AgentState({"a": "planted state"}, {"b": "planted summary"}, {"c": "planted internal"})
    agent = store.agents.open(session, "planner", dialect=STRANDS, data=state)
    store.append(agent, said("user", "planted text"))
    store.append(agent, said("assistant", call("planted-id", "tool", query="planted argument")))
    store.append(agent, said("user", result("planted-id", "planted result")))
    store.multi_agents.create(session, "graph", {"d": "planted graph"}, kind="graph")
    event = audit.record(AuditEvent.Action.REDACTED, session=session.id, reason="planted reason")
    SessionMessage.objects.filter(message_id=0).update(
        redacted_at=timezone.now(), redaction=event.pk
    )
    client.force_login(staff("clerk", "view_session", "redact", "view_held_copies", "export"))

    with CaptureQueriesContext(connection) as captured:
        page = shown(client, page_url("session-1"))
    part = shown(client, fragment_url("session-1"))

    assert "planted" not in page
    assert "planted" not in part
    assert page.count("[hidden]") >= 3
    assert "planner" in page
    assert "session-1" in page
    assert not [query for query in captured if '"title"' in query["sql"].split("FROM")[0]]
    key = SessionMessage.objects.all()[0].pk
    base = page_url("session-1").removesuffix("change/")
    agent_row, url = SessionAgent.objects.get(), f"{base}messages/{key}/"
    for hidden in (
        f"{url}raw/",
        f"{url}media/",
        f"{url}text/",
        f"{base}states/state/{agent_row.pk}/",
        f"{base}states/metadata/{session.id}/",
    ):
        assert client.get(hidden).status_code == 404
    assert client.post(f"{base}find/", {"query": "planted"}).status_code == 404
    assert not AuditEvent.objects.exclude(pk=event.pk).exists()


def test_reading_is_recorded_unless_it_is_ones_own(client, reader, talker, store):
    store.append_many(talker, [said("user", f"{number}") for number in range(60)])
    keys = [str(key) for key in SessionMessage.objects.order_by("id").values_list("pk", flat=True)]

    shown(client, page_url("session-1"))
    shown(client, fragment_url("session-1"), before=keys[10])

    part, page = AuditEvent.objects.all()
    assert {page.action, part.action} == {AuditEvent.Action.READ}
    assert (page.actor, page.session) == ("reader", talker.session)
    assert page.details == {
        "page": "messages", "first": keys[10], "last": keys[59], "messages": 50
    }  # fmt: skip
    assert part.details["messages"] == 10

    Session.objects.update(owner=reader)
    shown(client, page_url("session-1"))
    assert AuditEvent.objects.count() == 2


def test_reading_what_stands_beside_no_messages_is_recorded_too(client, reader, store):
    store.open("session-1", title="a title", metadata={"note": "a note"})

    page = shown(client, page_url("session-1"))

    assert "a title" in page
    assert "a note" in page
    assert "No messages." in page
    assert AuditEvent.objects.get().details == {"page": "messages", "messages": 0}


def test_a_page_that_could_not_be_recorded_is_not_shown(client, reader, talker, store, monkeypatch):
    store.append(talker, said("user", "secret"))

    def refuse(*args, **kwargs):
        raise RuntimeError("no record")

    monkeypatch.setattr(AuditEvent, "save", refuse)
    with pytest.raises(RuntimeError, match="no record"):
        client.get(page_url("session-1"))
