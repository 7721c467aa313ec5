"""Forks: a copy of what people saw, which then goes its own way."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from django_agent_sessions.content.dialects import STRANDS
from django_agent_sessions.exceptions import (
    InvalidIdError,
    SessionConflictError,
    SessionNotFoundError,
    UnreadableStateError,
)
from django_agent_sessions.models import Blob, BlobReference, Session, SessionMessage, Snapshot
from django_agent_sessions.models.fields import CorruptPayload
from django_agent_sessions.store import SessionStore, _message_copies
from django_agent_sessions.values.ids import new_id
from django_agent_sessions.values.records import AgentState
from tests.blobs.conftest import blob_folder, stored
from tests.blobs.messages import image
from tests.blobs.messages import user as with_blocks

__all__ = ["blob_folder", "stored"]

pytestmark = pytest.mark.django_db(transaction=True)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"text": text}]}


def said(store: SessionStore, session_id: str, agent_id: str = "default") -> list[str]:
    agent = store.agents.find(store.get(session_id), agent_id)
    assert agent is not None
    return [m["content"][0]["text"] for m in store.payloads(agent)]


@pytest.fixture
def agent(store):
    session = store.open("talk", title="A talk", metadata={"tag": 1})
    made = store.agents.open(session, dialect=STRANDS)
    store.append_many(made, [user(text) for text in "abcd"])
    return made


def test_both_go_on_independently(store, agent):
    at = SessionMessage.objects.get(message_id=1).pk
    fork = store.sessions.fork(store.get("talk"), at=at, session_id="fork")
    other = store.agents.find(fork, "default")
    store.append(other, user("x"))
    store.append(agent, user("e"))

    assert said(store, "fork") == ["a", "b", "x"]
    assert said(store, "talk") == list("abcde")
    assert (fork.title, fork.metadata) == ("A talk", {"tag": 1})
    row = Session.objects.get(pk=fork.id)
    assert row.forked_from == agent.session
    line = [str(agent.session)]
    assert row.origin == {"fork": {"session": line[0], "message": str(at), "line": line}}
    store.delete("talk")
    assert said(store, "fork") == ["a", "b", "x"]


def test_the_ancestors_of_a_fork_are_its_line_and_the_first_if_that_is_damaged(store, agent):
    first = store.get("talk")
    fork = store.sessions.fork(first)
    again = store.sessions.fork(fork)

    assert store.sessions.ancestors(first.id) == []
    assert store.sessions.ancestors(again.id) == [first.id, fork.id]
    store.delete(fork.session_id)
    assert store.sessions.ancestors(again.id) == [first.id, fork.id]
    for origin in (None, {}, {"fork": 1}, {"fork": {"line": ["x"]}}, {"fork": {"line": [1]}}):
        Session.objects.filter(pk=again.id).update(origin=origin)
        assert store.sessions.ancestors(again.id) == [first.id]


def test_a_fork_of_all_has_all_agents_and_their_states(store, agent):
    session = store.get("talk")
    second = store.agents.open(session, "second", dialect=STRANDS)
    store.append(second, user("hello"))
    store.agents.update(second, AgentState({"n": 1}, {"removed_message_count": 1}, window=None))
    store.multi_agents.create(session, "graph", state={"id": "graph"}, kind="graph")

    fork = store.sessions.fork(session)

    assert fork.session_id == str(fork.id)
    assert said(store, fork.session_id) == list("abcd")
    assert said(store, fork.session_id, "second") == ["hello"]
    assert store.agents.find(fork, "second").data == store.agents.find(session, "second").data
    assert store.multi_agents.find(fork, "graph").state == {"id": "graph"}
    assert fork.usage.messages == 5


def test_other_agents_come_along_as_far_as_they_had_got(store, agent):
    session = store.get("talk")
    second = store.agents.open(session, "second", dialect=STRANDS)
    store.append(second, user("before"))
    last = store.append(agent, user("e"))
    store.append(second, user("after"))

    fork = store.sessions.fork(session, at=last.id)

    assert said(store, fork.session_id) == list("abcde")
    assert said(store, fork.session_id, "second") == ["before"]


def test_an_agent_has_its_state_as_of_then_where_a_snapshot_has_it(store, agent):
    store.agents.update(agent, AgentState({"n": 1}))
    store.snapshots.take(agent)
    at = SessionMessage.objects.get(message_id=3).pk
    store.append(agent, user("e"))
    store.agents.update(agent, AgentState({"n": 2}, {"removed_message_count": 3}))

    fork = store.sessions.fork(store.get("talk"), at=at)
    assert store.agents.find(fork, "default").data.state == {"n": 1}
    earlier = store.sessions.fork(
        store.get("talk"), at=SessionMessage.objects.filter(message_id=0)[0].pk
    )
    data = store.agents.find(earlier, "default").data
    assert data.state == {"n": 2}
    assert data.conversation_manager_state == {"removed_message_count": 0}


def test_a_corrupt_snapshot_does_not_count_as_an_empty_state(store, agent):
    store.agents.update(agent, AgentState({"n": 1}))
    made = store.snapshots.take(agent)
    at = SessionMessage.objects.get(message_id=3).pk
    store.append(agent, user("e"))
    Snapshot.objects.update(document=CorruptPayload("plantedsecret"))

    for use in (
        lambda: store.sessions.fork(store.get("talk"), at=at),
        lambda: store.snapshots.restore(agent, made.id),
        lambda: store.branches.rewind(agent, 3),
    ):
        with pytest.raises(
            UnreadableStateError, match=r"snapshot .*corrupt \(document\)"
        ) as raised:
            use()
        assert str(made.id) in str(raised.value)
    assert Session.objects.count() == 1
    assert store.agents.find(store.get("talk"), "default").data.state == {"n": 1}


def test_a_side_branch_can_be_forked(store, agent):
    side = store.branches.rewind(agent, 0)
    at = SessionMessage.objects.get(branch=side.number, message_id=2).pk
    fork = store.sessions.fork(store.get("talk"), at=at)
    assert said(store, fork.session_id) == ["a", "b", "c"]


def test_what_was_redacted_is_redacted_in_a_fork(store, agent):
    store.messages.redact(agent, 1, user("[gone]"))
    fork = store.sessions.fork(store.get("talk"))
    row = SessionMessage.objects.get(session=fork.id, message_id=1)
    assert row.message == row.redact_message == user("[gone]")
    assert row.source == SessionMessage.objects.get(session=agent.session, message_id=1).pk


def test_large_binaries_are_copied_and_deleted_apart(store, stored, settings):
    settings.AGENT_SESSIONS = {**settings.AGENT_SESSIONS, "BLOB_MIN_BYTES": 100}
    agent = store.agents.open(store.open("pictures"), dialect=STRANDS)
    said = [with_blocks(image(b"x" * 1000)), with_blocks(image(b"y" * 1000)), user("end")]
    store.append_many(agent, said)

    fork = store.sessions.fork(store.get("pictures"))
    assert len(stored()) == 4
    assert Blob.objects.filter(session=fork.id).count() == 2
    assert BlobReference.objects.filter(session=fork.id).count() == 2
    store.delete("pictures")
    assert len(stored()) == 2
    assert store.payloads(store.agents.find(fork, "default")) == said
    store.branches.rewind(store.agents.find(fork, "default"), 0)
    store.clear(store.agents.find(fork, "default"))
    # The side branch has both.
    assert len(stored()) == 2
    store.delete(fork.session_id)
    assert stored() == []


def test_descendants_are_found_at_any_depth(store, agent):
    session = store.get("talk")
    child = store.sessions.fork(session)
    grandchild = store.sessions.fork(child)
    second = store.sessions.fork(session)
    store.delete(child.session_id)

    # One in between is gone.
    assert store.sessions.descendants(session.id) == [grandchild.id, second.id]
    assert store.sessions.descendants(grandchild.id) == []


@pytest.mark.large
def test_all_descendants_are_found_whatever_their_number(store, agent):
    session = store.get("talk")
    first = Session.objects.get(pk=store.sessions.fork(session).id)
    columns = {
        field.attname: getattr(first, field.attname) for field in first._meta.concrete_fields
    }
    keys = [first.pk, *(new_id() for _ in range(10_000))]
    Session.objects.bulk_create(
        Session(**{**columns, "id": key, "session_id": str(key)}) for key in keys[1:]
    )

    assert store.sessions.descendants(session.id) == keys


def test_what_cannot_be_forked_says_so_and_leaves_nothing(store, agent):
    session = store.get("talk")
    store.open("taken")
    with pytest.raises(SessionConflictError):
        store.sessions.fork(session, session_id="taken")
    with pytest.raises(SessionNotFoundError):
        store.sessions.fork(session, at=session.id)
    with pytest.raises(InvalidIdError):
        store.sessions.fork(session, session_id=" ")
    store.delete("talk")
    with pytest.raises(SessionNotFoundError):
        store.sessions.fork(session)
    assert list(Session.objects.values_list("session_id", flat=True)) == ["taken"]


def test_a_stranger_cannot_fork(store, agent, django_user_model):
    owner = django_user_model.objects.create(username="owner")
    stranger = django_user_model.objects.create(username="stranger")
    mine = SessionStore(owner=owner).open("mine")
    with pytest.raises(SessionNotFoundError):
        SessionStore(owner=stranger).sessions.fork(mine)
    fork = SessionStore(owner=owner).sessions.fork(mine)
    assert fork.owner_id == owner.pk


def test_a_fork_of_large_messages_is_not_in_memory_as_a_whole(store, agent):
    store.append_many(agent, [user(f"{number} " + "x" * 200_000) for number in range(100)])
    tracemalloc.start()
    fork = store.sessions.fork(store.get("talk"), session_id="fork")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 * 1024 * 1024
    assert said(store, "fork") == said(store, "talk")
    assert store.get("fork").usage.messages == fork.usage.messages


@pytest.mark.parametrize("sizes", [[1], [5, 5, 5, 5], [20], [1, 20, 1], [20, 20], [3] * 7])
def test_messages_are_copied_in_parts_that_fit_and_each_once(sizes, monkeypatch):
    monkeypatch.setattr(_message_copies, "_PART_SIZE", 10)
    spans = list(_message_copies._spans(list(enumerate(sizes))))
    copied = [position for first, last in spans for position in range(first, last + 1)]
    assert copied == list(range(len(sizes)))
    assert all(sum(sizes[first : last + 1]) <= 10 or first == last for first, last in spans)
