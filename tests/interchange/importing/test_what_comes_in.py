"""A session comes in with all that belongs to it, redacted as it was, and past the detectors."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from django.contrib.auth.models import AnonymousUser

from django_agent_sessions.exceptions import ConfigurationError
from django_agent_sessions.interchange import import_sessions
from django_agent_sessions.interchange.sources import (
    SourceAgent,
    SourceMessage,
    SourceMultiAgent,
    SourceSession,
)
from django_agent_sessions.models import Session, SessionAgent, SessionMessage, SessionMultiAgent
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.owners import EVERYBODY, NOBODY
from django_agent_sessions.values.records import AgentState
from tests.interchange.sources import START, Made, said, talk, user
from tests.texts import text_of

from .outcomes import contents, everything, reasons

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_session_comes_in_with_all_that_belongs_to_it():
    state = AgentState(
        {"b": 1, "a": b"\x00"}, {"removed": 1}, {"n": [None]}, {"kept": [], "tail": 1}
    )
    messages = [
        SourceMessage(user("one"), START, START + timedelta(hours=1), run="run a"),
        SourceMessage(user("two"), START + timedelta(seconds=1), run="run a"),
        SourceMessage(user("elsewhere"), START, branch=3),
    ]
    agent = SourceAgent("a/b", "strands", messages, state, START, START + timedelta(days=1))
    graph = SourceMultiAgent("g", "graph", {"nodes": [b"x"]})

    report = import_sessions(Made([SourceSession("s", [agent], [graph], START)]), namespace="n")

    assert (report.made, report.messages, report.skips) == (1, 3, 0)
    session = Session.objects.get()
    assert (session.session_id, session.namespace, session.created_at) == ("s", "n", START)
    assert session.last_activity_at == START + timedelta(seconds=1)
    assert session.message_count == 3
    assert session.origin is not None
    assert session.origin["import"]["complete"] is True
    stored = SessionAgent.objects.get()
    assert (stored.agent_id, stored.dialect, stored.created_at) == ("a/b", "strands", START)
    assert (
        AgentState(
            stored.state, stored.conversation_manager_state, stored.internal_state, stored.window
        )
        == state
    )
    one, two, elsewhere = SessionMessage.objects.order_by("branch", "message_id")
    assert one.run_id is not None
    assert one.run_id == two.run_id != elsewhere.run_id
    assert (one.created_at, one.updated_at) == (START, START + timedelta(hours=1))
    assert (elsewhere.branch, elsewhere.message_id) == (3, 0)
    assert SessionMultiAgent.objects.get().state == {"nodes": [b"x"]}


def test_keys_are_in_the_order_in_which_things_were_said_and_before_whatever_is_said_now():
    later, earlier = START + timedelta(hours=1), START - timedelta(hours=1)
    ahead = datetime(2999, 1, 1, tzinfo=UTC)
    times = [START, START, later, earlier, None, ahead, later]
    messages = [SourceMessage(user(str(n)), time) for n, time in enumerate(times)]

    import_sessions(Made([talk(messages)]))

    found = list(SessionMessage.objects.order_by("pk").values_list("message_id", "created_at"))
    assert [position for position, _ in found] == list(range(7))
    assert found[3][1] == earlier
    assert found[5][1] == ahead
    store = SessionStore()
    agent = store.agents.open(store.open("talk"))
    assert store.append(agent, user("now")).id > SessionMessage.objects.get(message_id=6).pk
    keys = SessionMessage.objects.order_by("message_id").values_list("pk", flat=True)
    assert all(one.version == 7 and one < other for one, other in pairwise(keys))


def test_what_is_written_goes_past_the_detectors(settings):
    settings.AGENT_SESSIONS = {"REDACT_ON_WRITE": ["email"]}
    messages = [
        SourceMessage(user("ada@example.org")),
        SourceMessage(user("x"), redact_message=user("bob@example.org")),
    ]

    import_sessions(Made([talk(messages, columns={"title": "To ada@example.org"})]))

    assert "example.org" not in everything()
    assert "EMAIL" in contents()[0]


def test_of_what_was_redacted_only_the_redacted_version_comes_in(db):
    message = SourceMessage(user("plantedsecret"), START, redact_message=user("[gone]"))

    import_sessions(Made([talk([message])]))

    row = SessionMessage.objects.get()
    assert (row.redact_message, text_of(row), row.redacted_at) == (user("[gone]"), "[gone]", START)
    assert "plantedsecret" not in everything()


def test_owners_are_one_user_or_whoever_a_function_says(ada, bob):
    sessions = [talk(said(1), name) for name in ("a", "b", "c", "d")]
    by_name = {"a": ada.pk, "b": bob, "d": 10**9}

    import_sessions(Made(sessions), namespace="one", owner=ada)
    report = import_sessions(
        Made(sessions), namespace="each", owner=lambda found: by_name.get(found.session_id, NOBODY)
    )

    assert {row.owner for row in Session.objects.filter(namespace="one")} == {ada}
    owners = Session.objects.filter(namespace="each").values_list("session_id", "owner")
    assert dict(owners) == {"a": ada.pk, "b": bob.pk, "c": None}
    assert reasons(report) == [("session 'd'", "no user has the key 1000000000")]


@pytest.mark.parametrize("answer", [None, EVERYBODY, AnonymousUser()])
def test_a_function_that_names_nobody_who_could_own_it_leaves_the_session_out(answer):
    """So that one that forgot to answer makes no session that nobody owns."""
    report = import_sessions(Made([talk(said(1))]), owner=lambda found: answer)

    [(place, reason)] = reasons(report)
    assert place == "session 'talk'"
    assert "NOBODY" in reason
    assert not Session.objects.exists()


@pytest.mark.parametrize("owner", [None, EVERYBODY, AnonymousUser()])
def test_an_import_for_nobody_who_could_own_it_is_refused_before_it_begins(owner):
    source = Made([talk(said(1))])

    with pytest.raises(ConfigurationError, match="NOBODY"):
        import_sessions(source, owner=owner)
    assert not Session.objects.exists()


def test_what_a_function_of_the_project_raises_is_not_taken_for_an_odd_session():
    with pytest.raises(ValueError, match="invalid literal"):
        import_sessions(Made([talk([])]), owner=lambda found: int("x"))
