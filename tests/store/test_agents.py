from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import transaction

from django_agent_sessions.content import dialects
from django_agent_sessions.exceptions import (
    InvalidIdError,
    PayloadError,
    SessionConflictError,
    SessionNotFoundError,
    StaleSessionError,
    UnreadableStateError,
)
from django_agent_sessions.models import SessionAgent, SessionMultiAgent
from django_agent_sessions.models.fields import CorruptPayload
from django_agent_sessions.values.records import AgentState
from tests.sealed import update_content
from tests.strategies import exactly

pytestmark = pytest.mark.django_db

STATE = AgentState(
    state={"b": 1, "a": b"\x00"},
    conversation_manager_state={"$bytes": "x"},
    internal_state=["\x00\ud800"],
    window={"kept": [[0, 1]], "tail": 3},
)


def test_opening_makes_an_agent_once(store, session):
    made = store.agents.open(session, "helper", dialect="strands", data=STATE)
    found = store.agents.open(session, "helper", dialect="openai")

    assert found == made == store.agents.find(session, "helper")
    assert (made.agent_id, made.dialect, made.session) == ("helper", "strands", session.id)
    assert exactly(found.data) == exactly(STATE)


def test_an_agent_has_a_name_and_a_dialect_by_default(store, session):
    agent = store.agents.open(session)

    assert (agent.agent_id, agent.dialect, agent.data) == ("default", "openai", AgentState())


def test_agents_are_listed_the_oldest_first(store, session):
    for agent_id in ("z", "a", "m"):
        store.agents.open(session, agent_id)
    store.agents.open(store.open("other"), "elsewhere")

    assert [agent.agent_id for agent in store.agents.list(session)] == ["z", "a", "m"]


def test_creating_an_agent_twice_is_a_conflict_that_harms_no_transaction(store, session):
    with transaction.atomic():
        store.agents.create(session, "a")
        with pytest.raises(SessionConflictError, match="agent 'a' already exists in session"):
            store.agents.create(session, "a")
        store.agents.create(session, "b")

    assert len(store.agents.list(session)) == 2


def test_times_of_an_agent_can_be_given(store, session):
    created, updated = datetime(2020, 1, 1, tzinfo=UTC), datetime(2021, 1, 1, tzinfo=UTC)
    store.agents.create(session, "a", created_at=created, updated_at=updated)

    agent = store.agents.find(session, "a")
    assert (agent.created_at, agent.updated_at) == (created, updated)


def test_a_state_is_overwritten_whole(store, session):
    agent = store.agents.open(session, data=STATE)

    store.agents.update(agent, AgentState(state={"new": 1}))

    found = store.agents.find(session, "default")
    assert found.data == AgentState(state={"new": 1})
    assert found.updated_at > agent.updated_at


def test_a_state_read_before_a_redaction_is_not_written_after_it(store, session, agent):
    store.append(agent, {"role": "user", "content": "secret"})
    before = store.get("session-1").redaction_epoch
    after = store.messages.redact(agent, 0, {"role": "user", "content": "[gone]"})

    with pytest.raises(StaleSessionError, match="content was redacted"):
        store.agents.update(agent, AgentState(state={"copy": "secret"}), epoch=before)
    assert store.agents.find(session, "default").data == AgentState()
    store.agents.update(agent, AgentState(state={"copy": "[gone]"}), epoch=after)
    assert store.agents.find(session, "default").data.state == {"copy": "[gone]"}


def test_a_state_that_is_no_json_is_refused_and_harms_no_transaction(store, session, agent):
    bad = AgentState(state={"plantedsecret": object()})
    with transaction.atomic():
        for write in (
            lambda: store.agents.update(agent, bad),
            lambda: store.agents.create(session, "b", data=bad),
            lambda: store.multi_agents.create(session, "m", {(1,): 2}),
        ):
            with pytest.raises(PayloadError) as refusal:
                write()
            assert "plantedsecret" not in str(refusal.value)
        store.agents.update(agent, AgentState(state={"fine": 1}))

    assert store.agents.find(session, "default").data.state == {"fine": 1}
    assert store.agents.find(session, "b") is None


@pytest.mark.django_db(transaction=True)
def test_agents_of_a_deleted_session(store):
    session = store.open("s")
    agent = store.agents.open(session)
    store.delete("s")

    assert store.agents.find(session, "default") is None
    for write in (
        lambda: store.agents.open(session),
        lambda: store.agents.create(session, "new"),
        lambda: store.multi_agents.create(session, "graph", {}),
        lambda: store.agents.update(agent, AgentState()),
        lambda: store.agents.update(agent, AgentState(), epoch=0),
    ):
        with pytest.raises(SessionNotFoundError):
            write()


@pytest.mark.parametrize("agent_id", ["", ".", "a\nb", "x" * 256, None])
def test_names_in_a_session_that_cannot_be_ids_are_refused(store, session, agent_id):
    for use in (store.agents.open, store.agents.create, store.agents.find):
        with pytest.raises(InvalidIdError, match=r"^agent_id"):
            use(session, agent_id)
    with pytest.raises(InvalidIdError, match=r"^multi_agent_id"):
        store.multi_agents.create(session, agent_id, {})
    with pytest.raises(InvalidIdError, match=r"^multi_agent_id"):
        store.multi_agents.find(session, agent_id)
    with pytest.raises(InvalidIdError, match=r"^multi_agent_id"):
        store.multi_agents.update(session, agent_id, {})


@pytest.mark.parametrize(
    "column", ["state", "conversation_manager_state", "internal_state", "window"]
)
def test_a_corrupt_state_is_named_and_neither_restored_nor_replaced(store, session, column, caplog):
    agent = store.agents.open(session, data=STATE)
    messages = [{"role": "user", "content": str(n)} for n in range(5)]
    store.append_many(agent, messages)
    SessionAgent.objects.update(**{column: CorruptPayload('{"plantedsecret')})

    (found,) = store.agents.list(session)

    assert found.agent_id == "default"
    assert [row.message for row in store.messages.list(found)] == messages
    assert store.append(found, messages[0]).message_id == 5
    for use in (
        lambda: found.data.state,
        lambda: store.messages.restore(found),
        lambda: store.agents.update(found, AgentState()),
        lambda: store.snapshots.take(found),
        lambda: store.branches.rewind(found, to=1),
    ):
        with pytest.raises(UnreadableStateError, match=rf"\({column}\): restore it") as raised:
            use()
        for name in ("'default'", str(agent.id), str(session.id), "corrupt-state"):
            assert name in str(raised.value)
        assert "plantedsecret" not in f"{raised.value} {found!r} {caplog.text}"
    assert str(agent.id) in caplog.text
    assert getattr(SessionAgent.objects.get(), column) == CorruptPayload('{"plantedsecret')

    row = SessionAgent.objects.get()
    setattr(row, column, None if column == "window" else {})
    row.save(update_fields=[column])
    restored = store.messages.restore(store.agents.open(session))
    assert len(restored) == (6 if column == "window" else 4)


@pytest.mark.parametrize(
    "column", ["state", "conversation_manager_state", "internal_state", "window"]
)
def test_a_state_damaged_after_it_was_read_is_replaced_by_the_next_whole_one(
    store, session, column
):
    agent = store.agents.open(session, data=STATE)
    SessionAgent.objects.update(**{column: CorruptPayload('{"plantedsecret')})

    store.agents.update(agent, STATE)

    assert store.agents.find(session, "default").data == STATE


@pytest.mark.parametrize(
    "window",
    [
        [],
        "plantedsecret",
        {"kept": [[0, 1]]},
        {"tail": 1},
        {"kept": "all", "tail": 0},
        {"kept": [], "tail": -1},
        {"kept": [5], "tail": 1},
        {"kept": [[0]], "tail": 1},
        {"kept": [[1, 0]], "tail": 1},
        {"kept": [["a", "b"]], "tail": 1},
        {"kept": [{"position": 0}], "tail": 1},
        {"kept": [{"message": {}, "position": "0"}], "tail": 1},
    ],
    ids=str,
)
def test_a_window_of_another_form_is_a_corrupt_state(store, session, window):
    agent = store.agents.open(session)
    store.append(agent, {"role": "user", "content": "hi"})
    update_content(SessionAgent.objects.all(), {"window": window})

    found = store.agents.find(session, "default")

    assert store.append(found, {"role": "user", "content": "more"}).message_id == 1
    for use in (
        lambda: found.data.window,
        lambda: store.messages.restore(found),
        lambda: store.agents.update(found, AgentState()),
        lambda: store.snapshots.take(found),
        lambda: store.branches.rewind(found, to=0),
    ):
        with pytest.raises(
            UnreadableStateError, match=r"'default' .*\(window\): restore"
        ) as raised:
            use()
        assert str(agent.id) in str(raised.value)
        assert "plantedsecret" not in str(raised.value)
    assert SessionAgent.objects.get().window == window


# --- orchestrators ---------------------------------------------------------------------------


def test_an_orchestrator_is_made_read_and_overwritten(store, session):
    state = {"nodes": {"b": b"\x00", "a": "\ud800"}, "$bytes": 1}
    made = store.multi_agents.create(session, "graph-1", state, kind="graph")

    assert store.multi_agents.find(session, "graph-1") == made
    assert exactly(store.multi_agents.find(session, "graph-1").state) == exactly(state)
    assert made.kind == "graph"
    assert store.multi_agents.update(session, "graph-1", {"done": True}) is True
    assert store.multi_agents.find(session, "graph-1").state == {"done": True}


def test_an_orchestrator_that_does_not_exist(store, session):
    assert store.multi_agents.find(session, "missing") is None
    assert store.multi_agents.update(session, "missing", {}) is False
    store.multi_agents.create(session, "there", {})
    assert store.multi_agents.find(store.open("other"), "there") is None


def test_making_an_orchestrator_twice_is_a_conflict_that_harms_no_transaction(store, session):
    with transaction.atomic():
        store.multi_agents.create(session, "m", {"first": 1})
        with pytest.raises(SessionConflictError, match=r"orchestrator 'm' .* already exists"):
            store.multi_agents.create(session, "m", {"second": 2})
        store.multi_agents.create(session, "n", {})

    assert store.multi_agents.find(session, "m").state == {"first": 1}


def test_a_corrupt_orchestrator_is_named_and_not_restored(store, session, caplog):
    made = store.multi_agents.create(session, "m", {"a": 1})
    SessionMultiAgent.objects.update(state=CorruptPayload("plantedsecret"))

    (listed,) = store.multi_agents.list(session)
    found = store.multi_agents.find(session, "m")

    assert listed.id == found.id == made.id
    with pytest.raises(UnreadableStateError, match=r"orchestrator 'm' .*corrupt") as raised:
        _ = found.state
    for name in (str(made.id), str(session.id), "corrupt-state"):
        assert name in str(raised.value)
        assert name in caplog.text
    assert "plantedsecret" not in f"{raised.value} {found!r} {caplog.text}"


def test_a_value_too_long_for_its_column_harms_no_transaction(store, session):
    with transaction.atomic():
        for write in (
            lambda: store.agents.create(session, "a", dialect="plantedsecret" * 10),
            lambda: store.multi_agents.create(session, "m", {}, kind="plantedsecret\x00" * 10),
        ):
            # SQLite alone takes it.
            with contextlib.suppress(PayloadError):
                write()
        store.agents.create(session, "b")

    assert store.agents.find(session, "b") is not None


def test_an_unknown_dialect_is_logged_once_and_its_messages_are_kept(store, session, caplog):
    def start(agent_id: str, dialect: str) -> Any:
        return store.agents.start(session, agent_id, [{"said": "x"}], dialect=dialect)[0]

    dialects.warn_of_unknown.cache_clear()
    store.agents.open(session, "a", dialect="strnads")
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    for part in ("'strnads'", "strands, strands-node, openai", "DIALECTS"):
        assert part in caplog.text
    store.agents.create(session, "b", dialect="strnads")
    agent = start("c", "strnads")
    start("d", "strands")
    assert len(caplog.records) == 1
    start("e", "opneai")
    store.sessions.start("new", "a", [{"said": "x"}], dialect="telepathy")
    assert len(caplog.records) == 3
    assert store.payloads(agent) == [{"said": "x"}]
