"""No attribute, event or metric of ours holds content."""

from __future__ import annotations

from contextlib import suppress

import pytest
from django.contrib.auth import get_user_model

from django_agent_sessions.exceptions import AgentSessionsError
from django_agent_sessions.governance.erasure import erase
from django_agent_sessions.governance.legal_hold import hold, release
from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.models import Session
from django_agent_sessions.store import SessionStore
from django_agent_sessions.timeline import Timeline
from django_agent_sessions.values.records import AgentState

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "Ottilie-4711"
MESSAGE = {"role": "user", "content": f"I am {SECRET}"}
CALL = {"type": "function_call", "name": SECRET, "arguments": SECRET, "call_id": SECRET}


def test_a_planted_secret_is_nowhere(recorded):
    user = get_user_model().objects.create(username=SECRET, pk=987_654_321)
    store = SessionStore(owner=user, scope=SECRET)
    session = store.open("user-1", title=SECRET, metadata={"name": SECRET})
    store.sessions.update(session.id, title=SECRET + "!", metadata={SECRET: SECRET})
    store.sessions.open_external(f"{SECRET}-external")
    agent = store.agents.open(session, dialect="openai")
    store.append_many(agent, [MESSAGE, CALL, MESSAGE, MESSAGE])
    store.agents.update(agent, AgentState(state={SECRET: SECRET}))
    store.branches.create(agent, name=SECRET)
    store.branches.find(agent, SECRET)
    store.snapshots.take(agent)
    last = store.messages.latest(agent, 1)[0]
    store.feedback.save(last.id, 1, comment=SECRET)
    store.messages.update(agent, 3, {"role": "user", "content": SECRET + "?"})
    store.messages.redact(agent, 3, {"role": "user", "content": "x"}, reason=SECRET)
    hold(session.id, reason=SECRET)
    release(session.id, reason=SECRET)
    timeline = Timeline(Session.objects.get(pk=session.id), user, store.using, reason=SECRET)
    timeline.fork(title=SECRET, external_id=SECRET)
    timeline.rewind(agent, 2, name=SECRET + "-later")
    redact(session.id, Find(SECRET), reason=SECRET, actor=user)
    for wrong in ({"content": {SECRET}}, {SECRET: object()}):
        with suppress(AgentSessionsError):
            store.append(agent, wrong)
    with suppress(AgentSessionsError):
        store.open("user-1", metadata={SECRET: object()})
    with suppress(AgentSessionsError):
        SessionStore().get("user-1")
    erase(user, reason=SECRET, actor=user)
    expected = {"append", "branches.rewind", "erase", "hold", "redact", "release", "sessions.fork"}
    assert expected <= set(recorded.operations())
    everything = recorded.everything()
    assert SECRET not in everything
    assert "987654321" not in everything
