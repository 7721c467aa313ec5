"""The session in OpenTelemetry's context."""

from __future__ import annotations

import pytest
from django.core import signals
from django.test import override_settings
from opentelemetry import baggage, context, propagate

from django_agent_sessions.exceptions import InvalidIdError
from django_agent_sessions.telemetry import session_context
from django_agent_sessions.telemetry.session_ids import SessionIds, enter_session, ids_of

IDS = SessionIds("user-1", "bot", "helper")


def test_a_span_that_begins_before_the_session_is_used_gets_it(recorded):
    with recorded.tracer.start_as_current_span("request"):
        enter_session(IDS)
    assert recorded.spans()[0].attributes["gen_ai.conversation.id"] == "user-1"


def test_spans_that_start_after_it_carry_the_session(recorded):
    enter_session(IDS)
    with recorded.tracer.start_as_current_span("later"):
        pass
    assert dict(recorded.spans()[0].attributes) == IDS.attributes()


def test_a_span_of_a_context_without_the_session_has_that_of_its_parent(recorded):
    with recorded.tracer.start_as_current_span("request") as parent:
        pass
    with recorded.tracer.start_as_current_span("agent") as parent:
        parent.set_attributes(IDS.attributes())
        recorded.tracer.start_span("child").end()
    assert dict(recorded.spans("child")[0].attributes) == IDS.attributes()


def test_the_ids_are_baggage_of_outgoing_requests(recorded):
    enter_session(IDS)
    headers: dict[str, str] = {}
    propagate.inject(headers)
    assert "gen_ai.conversation.id=user-1" in headers["baggage"].split(",")


def test_baggage_can_be_turned_off_and_the_spans_carry_the_session_still(recorded):
    with override_settings(AGENT_SESSIONS={"TELEMETRY_BAGGAGE": False}):
        enter_session(IDS)
        headers: dict[str, str] = {}
        propagate.inject(headers)
    assert "baggage" not in headers
    with recorded.tracer.start_as_current_span("later"):
        pass
    assert dict(recorded.spans()[0].attributes) == IDS.attributes()


def test_baggage_of_the_project_stays(recorded):
    context.attach(baggage.set_baggage("tenant", "a"))
    enter_session(IDS)
    enter_session(SessionIds("user-2"))
    assert baggage.get_all() == {
        "tenant": "a",
        "gen_ai.conversation.id": "user-2",
        "agent_sessions.session_id": "user-2",
    }


def test_baggage_of_an_incoming_request_is_not_believed(recorded):
    context.attach(propagate.extract({"baggage": "agent_sessions.session_id=forged"}))
    with recorded.tracer.start_as_current_span("request"):
        pass
    assert "agent_sessions.session_id" not in recorded.spans()[0].attributes


def test_a_thread_that_begins_another_request_forgets_the_session(recorded):
    enter_session(IDS)
    signals.request_started.send(None, environ={})
    assert ids_of() is None
    assert baggage.get_all() == {}


def test_a_block_restores_the_context_before_it(recorded):
    with session_context("user-1", namespace="bot"):
        enter_session(SessionIds("user-1", "bot", "helper"))
        enter_session(SessionIds("user-2"))
        assert ids_of() == SessionIds("user-2")
    assert ids_of() is None
    assert baggage.get_all() == {}


def test_a_block_refuses_an_invalid_id(recorded):
    with pytest.raises(InvalidIdError), session_context(""):
        pass
