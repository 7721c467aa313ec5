from __future__ import annotations

import contextlib
from datetime import UTC, datetime

import pytest
from django.db import transaction

from django_agent_sessions.exceptions import (
    InvalidIdError,
    PayloadError,
    SessionConflictError,
    SessionNotFoundError,
    StaleSessionError,
)
from django_agent_sessions.models import SessionAgent, SessionMultiAgent
from django_agent_sessions.models.fields import CorruptPayload
from django_agent_sessions.values.records import AgentState
from tests.strategies import exactly

pytestmark = pytest.mark.django_db

STATE = AgentState(
    state={"b": 1, "a": b"\x00"},
    conversation_manager_state={"$bytes": "x"},
    internal_state=["\x00\ud800"],
    window={"kept": [0], "tail": 3},
)


def test_opening_makes_an_agent_once(store, session):
    made = store.open_agent(session, "helper", dialect="strands", data=STATE)
    found = store.open_agent(session, "helper", dialect="openai")

    assert found == made == store.read_agent(session, "helper")
    assert (made.agent_id, made.dialect, made.session) == ("helper", "strands", session.id)
    assert exactly(found.data) == exactly(STATE)


def test_an_agent_has_a_name_and_a_dialect_by_default(store, session):
    agent = store.open_agent(session)

    assert (agent.agent_id, agent.dialect, agent.data) == ("default", "openai", AgentState())


def test_agents_are_listed_the_oldest_first(store, session):
    for agent_id in ("z", "a", "m"):
        store.open_agent(session, agent_id)
    store.open_agent(store.open("other"), "elsewhere")

    assert [agent.agent_id for agent in store.list_agents(session)] == ["z", "a", "m"]


def test_creating_an_agent_twice_is_a_conflict_that_harms_no_transaction(store, session):
    with transaction.atomic():
        store.create_agent(session, "a")
        with pytest.raises(SessionConflictError, match="agent 'a' already exists in session"):
            store.create_agent(session, "a")
        store.create_agent(session, "b")

    assert len(store.list_agents(session)) == 2


def test_times_of_an_agent_can_be_given(store, session):
    created, updated = datetime(2020, 1, 1, tzinfo=UTC), datetime(2021, 1, 1, tzinfo=UTC)
    store.create_agent(session, "a", created_at=created, updated_at=updated)

    agent = store.read_agent(session, "a")
    assert (agent.created_at, agent.updated_at) == (created, updated)


def test_a_state_is_overwritten_whole(store, session):
    agent = store.open_agent(session, data=STATE)

    store.update_agent(agent, AgentState(state={"new": 1}))

    found = store.read_agent(session, "default")
    assert found.data == AgentState(state={"new": 1})
    assert found.updated_at > agent.updated_at


def test_a_state_read_before_a_redaction_is_not_written_after_it(store, session, agent):
    store.append(agent, {"role": "user", "content": "secret"})
    before = store.get("session-1").redaction_epoch
    after = store.redact_message(agent, 0, {"role": "user", "content": "[gone]"})

    with pytest.raises(StaleSessionError, match="content was redacted"):
        store.update_agent(agent, AgentState(state={"copy": "secret"}), epoch=before)
    assert store.read_agent(session, "default").data == AgentState()
    store.update_agent(agent, AgentState(state={"copy": "[gone]"}), epoch=after)
    assert store.read_agent(session, "default").data.state == {"copy": "[gone]"}


def test_a_state_that_is_no_json_is_refused_and_harms_no_transaction(store, session, agent):
    bad = AgentState(state={"plantedsecret": float("nan")})
    with transaction.atomic():
        for write in (
            lambda: store.update_agent(agent, bad),
            lambda: store.create_agent(session, "b", data=bad),
            lambda: store.create_multi_agent(session, "m", {1: 2}),
        ):
            with pytest.raises(PayloadError) as refusal:
                write()
            assert "plantedsecret" not in str(refusal.value)
        store.update_agent(agent, AgentState(state={"fine": 1}))

    assert store.read_agent(session, "default").data.state == {"fine": 1}
    assert store.read_agent(session, "b") is None


@pytest.mark.django_db(transaction=True)
def test_agents_of_a_deleted_session(store):
    session = store.open("s")
    agent = store.open_agent(session)
    store.delete("s")

    assert store.read_agent(session, "default") is None
    for write in (
        lambda: store.open_agent(session),
        lambda: store.create_agent(session, "new"),
        lambda: store.create_multi_agent(session, "graph", {}),
        lambda: store.update_agent(agent, AgentState()),
        lambda: store.update_agent(agent, AgentState(), epoch=0),
    ):
        with pytest.raises(SessionNotFoundError):
            write()


@pytest.mark.parametrize("agent_id", ["", ".", "a\nb", "x" * 256, None])
def test_names_in_a_session_that_cannot_be_ids_are_refused(store, session, agent_id):
    for use in (store.open_agent, store.create_agent, store.read_agent):
        with pytest.raises(InvalidIdError, match=r"^agent_id"):
            use(session, agent_id)
    with pytest.raises(InvalidIdError, match=r"^multi_agent_id"):
        store.create_multi_agent(session, agent_id, {})
    with pytest.raises(InvalidIdError, match=r"^multi_agent_id"):
        store.read_multi_agent(session, agent_id)
    with pytest.raises(InvalidIdError, match=r"^multi_agent_id"):
        store.update_multi_agent(session, agent_id, {})


def test_a_corrupt_state_is_reported_and_left_out(store, session, caplog):
    agent = store.open_agent(session, data=STATE)
    store.append_many(agent, [{"role": "user", "content": str(n)} for n in range(5)])
    SessionAgent.objects.update(
        state=CorruptPayload('{"plantedsecret'), window=CorruptPayload("plantedsecret")
    )

    found = store.open_agent(session)

    assert found.data.state == {}
    assert found.data.window is None
    assert exactly(found.data.internal_state) == exactly(STATE.internal_state)
    assert len(store.restore(found)) == 5
    assert str(agent.id) in caplog.text
    assert "plantedsecret" not in caplog.text


# --- orchestrators ---------------------------------------------------------------------------


def test_an_orchestrator_is_made_read_and_overwritten(store, session):
    state = {"nodes": {"b": b"\x00", "a": "\ud800"}, "$bytes": 1}
    made = store.create_multi_agent(session, "graph-1", state, kind="graph")

    assert store.read_multi_agent(session, "graph-1") == made
    assert exactly(store.read_multi_agent(session, "graph-1").state) == exactly(state)
    assert made.kind == "graph"
    assert store.update_multi_agent(session, "graph-1", {"done": True}) is True
    assert store.read_multi_agent(session, "graph-1").state == {"done": True}


def test_an_orchestrator_that_does_not_exist(store, session):
    assert store.read_multi_agent(session, "missing") is None
    assert store.update_multi_agent(session, "missing", {}) is False
    store.create_multi_agent(session, "there", {})
    assert store.read_multi_agent(store.open("other"), "there") is None


def test_making_an_orchestrator_twice_is_a_conflict_that_harms_no_transaction(store, session):
    with transaction.atomic():
        store.create_multi_agent(session, "m", {"first": 1})
        with pytest.raises(SessionConflictError, match=r"orchestrator 'm' .* already exists"):
            store.create_multi_agent(session, "m", {"second": 2})
        store.create_multi_agent(session, "n", {})

    assert store.read_multi_agent(session, "m").state == {"first": 1}


def test_a_corrupt_orchestrator_is_reported_and_its_state_left_out(store, session, caplog):
    made = store.create_multi_agent(session, "m", {"a": 1})
    SessionMultiAgent.objects.update(state=CorruptPayload("plantedsecret"))

    assert store.read_multi_agent(session, "m").state == {}
    assert str(made.id) in caplog.text
    assert "plantedsecret" not in caplog.text


def test_a_value_too_long_for_its_column_harms_no_transaction(store, session):
    with transaction.atomic():
        for write in (
            lambda: store.create_agent(session, "a", dialect="plantedsecret" * 10),
            lambda: store.create_multi_agent(session, "m", {}, kind="plantedsecret\x00" * 10),
        ):
            # SQLite alone takes it.
            with contextlib.suppress(PayloadError):
                write()
        store.create_agent(session, "b")

    assert store.read_agent(session, "b") is not None
