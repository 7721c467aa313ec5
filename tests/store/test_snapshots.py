"""Snapshots in the store: what a plan writes, in one transaction or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from django_agent_sessions.content import dialects
from django_agent_sessions.exceptions import PayloadError, SessionNotFoundError
from django_agent_sessions.models import Branch, SessionMessage, Snapshot
from django_agent_sessions.store import SessionStore
from django_agent_sessions.store.snapshots import (
    SaveState,
    SnapshotFilter,
    SnapshotStorageStore,
    SnapshotWrite,
)
from django_agent_sessions.values.owners import EVERYBODY
from django_agent_sessions.values.records import AgentState

pytestmark = pytest.mark.django_db

DOCUMENT = {"data": {"messages": None}}


@pytest.fixture
def store() -> SnapshotStorageStore:
    return SnapshotStorageStore(SessionStore())


def said(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"text": text}]}


def save(store: SnapshotStorageStore, snapshot_id: str = "", **what: Any) -> SaveState:
    return store.save_snapshot("s", "a", snapshot_id, lambda head: SnapshotWrite(DOCUMENT, **what))


def test_a_save_makes_the_session_and_the_agent(store):
    state = AgentState(state={"n": 1})

    head = save(store, messages=[[0, 2]], appended=[said("1"), said("2")], state=state)

    assert (head.end, head.revision, head.epoch) == (2, 0, 0)
    session = store.store.get("s")
    assert session.usage.messages == 2
    agent = store.store.agents.find(session, "a")
    assert agent.dialect == dialects.STRANDS
    assert agent.data.state == {"n": 1}
    assert store.store.payloads(agent) == [said("1"), said("2")]
    assert Snapshot.objects.get().length == 2


def test_the_plan_is_told_what_there_is(store):
    first = save(store, messages=[[0, 1]], appended=[said("1")])
    found: list[SaveState] = []

    def plan(head: SaveState) -> SnapshotWrite:
        found.append(head)
        return SnapshotWrite(DOCUMENT, [[0, 1]])

    store.save_snapshot("s", "a", "", plan)

    assert found[0].last == first.last
    assert (found[0].revision, found[0].end) == (0, 1)


def test_a_save_that_fails_writes_nothing(store):
    with pytest.raises(PayloadError):
        store.save_snapshot(
            "s", "a", "", lambda head: SnapshotWrite({"x": object()}, [[0, 1]], [said("1")])
        )

    assert not SessionMessage.objects.exists()
    assert not Snapshot.objects.exists()


def test_what_is_set_aside_takes_the_snapshots_of_it_along(store):
    save(store, messages=[[0, 3]], appended=[said("1"), said("2"), said("3")])
    save(store, "x", messages=[[0, 3]])
    save(store, "y", messages=[[0, 1]])

    save(store, "z", messages=[[0, 2]], appended=[said("other")], keep=0)

    (number,) = Branch.objects.values_list("number", flat=True)
    branches = dict(Snapshot.objects.values_list("snapshot_id", "branch"))
    assert branches == {"": number, "x": number, "y": 0, "z": 0}
    loaded = store.load_snapshot("s", "a", "")
    assert [loaded.contents[n] for n in range(3)] == [said("1"), said("2"), said("3")]


def test_snapshots_are_found_by_what_they_are_called(store, ada):
    save(store, messages=[])
    save(store, "x", messages=[])
    other = SnapshotStorageStore(SessionStore(owner=ada, namespace="n/m"))
    save(other, messages=[])

    def names(
        *places: SnapshotFilter, using: SnapshotStorageStore = store
    ) -> list[tuple[str, str]]:
        return sorted((n.namespace, n.snapshot_id) for n in using.snapshot_names(places))

    assert names(SnapshotFilter("")) == [("", ""), ("", "x")]
    assert names(SnapshotFilter("n", include_nested=True)) == []
    assert names(SnapshotFilter("", include_nested=True)) == [("", ""), ("", "x")]
    everybodys = SnapshotStorageStore(SessionStore(owner=EVERYBODY))
    assert names(SnapshotFilter("n", include_nested=True), using=everybodys) == [("n/m", "")]
    assert names(SnapshotFilter("", include_nested=True), using=everybodys) == [
        ("", ""),
        ("", "x"),
        ("n/m", ""),
    ]
    assert names(SnapshotFilter("", include_nested=True), using=other) == [("n/m", "")]
    assert names(SnapshotFilter("", session_prefix="S")) == []
    assert names(SnapshotFilter("", session_prefix="s", agent_id="a")) != []
    assert names(SnapshotFilter("", session_id="s", agent_id="b")) == []


def test_what_is_somebody_elses_is_not_there(ada, bob):
    save(SnapshotStorageStore(SessionStore(owner=ada)), messages=[])
    theirs = SnapshotStorageStore(SessionStore(owner=bob))

    assert theirs.load_snapshot("s", "a", "") is None
    assert not theirs.delete_snapshot("s", "", agent_id="a")
    with pytest.raises(SessionNotFoundError):
        save(theirs, messages=[])


def test_an_orchestrator_has_its_state_and_the_rest(store):
    for state in ({"type": "graph"}, {"type": "graph", "n": 2}):
        store.save_orchestrator(
            "s", "g", lambda session, epoch, stored, s=state: (s, DOCUMENT), kind="graph"
        )

    _, epoch, state, document = store.load_orchestrator("s", "g")
    assert (epoch, state, document) == (0, {"type": "graph", "n": 2}, DOCUMENT)
    assert store.store.multi_agents.find(store.store.get("s"), "g").kind == "graph"
    assert store.delete_snapshot("s", "", multi_agent_id="g")
    assert store.load_orchestrator("s", "g") is None
