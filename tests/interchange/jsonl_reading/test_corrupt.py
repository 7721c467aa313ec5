"""What was corrupt where it was exported hides nothing, and passes no detector."""

from __future__ import annotations

import pytest

from django_agent_sessions.interchange import JsonLines, import_sessions
from django_agent_sessions.models import SessionAgent, SessionMessage, SessionMultiAgent
from django_agent_sessions.models.fields import CorruptPayload
from tests.models.test_fields import set_raw

from .files import export, forget, lines, reasons, rows, write

pytestmark = pytest.mark.django_db


def test_what_was_corrupt_stays_as_it_was(store, agent, file):
    store.append_many(agent, [{"content": "a"}, {"content": "b"}])
    set_raw(0, '{"half\n\u2028')
    export(file)
    forget()

    assert import_sessions(JsonLines(file)).skips == 0

    assert SessionMessage.objects.get(message_id=0).message.text == '{"half\n\u2028'
    assert store.payloads(store.agents.open(store.open("session-1"))) == [{"content": "b"}]


def test_states_that_were_corrupt_are_left_out_and_told(rich, file):
    corrupt = CorruptPayload('{"half')
    SessionAgent.objects.filter(agent_id="first").update(state=corrupt)
    SessionMultiAgent.objects.update(state=corrupt)
    export(file)
    forget()

    report = import_sessions(JsonLines(file))

    assert reasons(report) == [
        ("session 'talk/1', agent 'first', state", "it is corrupt"),
        ("session 'talk/1', orchestrator 'g'", "its state is corrupt"),
    ]
    assert SessionAgent.objects.get(agent_id="first").state == {}
    assert not SessionMultiAgent.objects.exists()


def test_what_only_says_that_it_is_corrupt_is_a_message_like_any_other(
    store, agent, file, settings
):
    store.append(agent, {"content": "a"})
    [line] = lines(export(file))
    message = line["agents"][0]["messages"][0]
    message |= {"message": None, "corrupt": {"message": '{"content": "ada@example.org"}'}}
    forget()
    settings.AGENT_SESSIONS = {"REDACT_ON_WRITE": ["email"]}

    assert import_sessions(write(file, line)).skips == 0

    assert "example.org" not in str(rows())
