"""Under legal hold, content that was recorded stays as it was, and agents go on."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from django.db import transaction

from django_agent_sessions.exceptions import LegalHoldError, StaleSessionError
from django_agent_sessions.governance import legal_hold
from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.models import (
    HeldCopy,
    Session,
    SessionMessage,
    SessionMultiAgent,
    Snapshot,
    StoredPart,
)
from django_agent_sessions.store import SessionStore
from django_agent_sessions.store._branch_names import BranchNames
from django_agent_sessions.store.contents import delete_messages
from django_agent_sessions.store.snapshots import SnapshotStorageStore
from django_agent_sessions.testing.statements import statements
from django_agent_sessions.values.owners import EVERYBODY
from django_agent_sessions.values.records import AgentState
from tests.governance.holding import TABLES, hold_everything
from tests.governance.redaction.timelines import rows_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def held(store):
    return hold_everything(store)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def the_store() -> SessionStore:
    return SessionStore(owner=EVERYBODY)


def the_agent():
    return the_store().agents.find(the_store().get("held"), "default")


def first_message() -> UUID:
    return SessionMessage.objects.filter(branch=0).earliest("message_id").pk


def snapshots() -> SnapshotStorageStore:
    return SnapshotStorageStore(the_store())


WAYS = {
    "title": lambda: the_store().sessions.update(the_store().get("held").id, title="Changed"),
    "metadata": lambda: the_store().sessions.update(the_store().get("held").id, metadata={}),
    "redaction": lambda: redact(the_store().get("held").id, Find("Planned"), reason="r"),
    "branch": lambda: the_store().branches.delete(the_agent(), 1),
    "every branch": lambda: BranchNames(the_store()).clear(the_agent()),
    "messages": lambda: delete_messages("default", the_agent(), [first_message()]),
    "object": lambda: snapshots().write_object("notes", b"other", session=the_store().get("held")),
    "no object": lambda: snapshots().delete_object("notes", session=the_store().get("held")),
    "snapshot": lambda: snapshots().delete_snapshot(
        "held", Snapshot.objects.get().snapshot_id, agent_id="default"
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_no_service_removes_or_changes_what_a_held_session_has(held, way):
    before = rows_of(*TABLES), StoredPart.objects.count()

    with transaction.atomic(), pytest.raises(LegalHoldError, match="'held' is under legal hold"):
        WAYS[way]()

    assert (rows_of(*TABLES), StoredPart.objects.count()) == before
    legal_hold.release(held.id, reason="closed")
    WAYS[way]()
    assert (rows_of(*TABLES), StoredPart.objects.count()) != before


CLEARS = {
    "one branch": lambda agent, epoch: the_store().clear(agent, epoch=epoch),
    "every branch": lambda agent, epoch: BranchNames(the_store()).clear(agent, epoch=epoch),
}


@pytest.mark.parametrize("clear", CLEARS.values(), ids=CLEARS)
def test_who_has_read_something_that_changed_since_has_to_reload_before_the_hold_is_named(
    held, clear
):
    agent, epoch = the_agent(), the_store().get("held").redaction_epoch
    the_store().messages.redact(agent, 1, user("[gone]"))

    with pytest.raises(StaleSessionError):
        clear(agent, epoch)
    with pytest.raises(LegalHoldError):
        clear(agent, epoch + 1)


def test_what_removes_nothing_is_not_refused(held):
    store = the_store()
    empty = store.agents.open(held, "another")

    assert store.clear(empty) == 0
    assert BranchNames(store).clear(empty) == 0
    assert delete_messages("default", the_agent(), []) == 0
    snapshots().write_object("notes", b"written", session=held)
    store.sessions.update(held.id, title="Planned", metadata={"case": 1})


def test_dates_and_flags_of_a_held_session_and_what_was_empty_can_be_written(store, held):
    row = Session.objects.get()
    row.archived_at = row.created_at
    row.external_id = "new"
    row.save()
    Session.objects.update(expires_at=row.created_at)
    store.open("empty")
    legal_hold.hold(store.get("empty").id, reason="case 1")
    store.sessions.update(store.get("empty").id, title="First title")

    assert Session.objects.get(pk=held.id).external_id == "new"
    assert store.get("empty").title == "First title"


# --- what agents do ------------------------------------------------------------------------------


def kept(kind: str) -> list[Any]:
    return list(HeldCopy.objects.filter(kind=kind).order_by("pk").values_list("content", flat=True))


def test_a_state_that_an_agent_replaces_is_kept(held):
    store, agent = the_store(), the_agent()
    snapshots = store.snapshots.list(agent)
    epoch = store.get("held").redaction_epoch

    for mood in ("glad", "glad", "tired"):
        store.agents.update(agent, AgentState(state={"mood": mood}), epoch=epoch)

    assert the_agent().data.state == {"mood": "tired"}
    assert kept("agent") == [{"state": {"mood": "calm"}}, {"state": {"mood": "glad"}}]
    assert store.snapshots.list(agent) == snapshots


def test_a_state_without_hold_is_kept_nowhere(store, session):
    agent = store.agents.open(session, data=AgentState(state={"mood": "calm"}))

    change = AgentState(state={"mood": "glad"})
    assert statements(lambda: store.agents.update(agent, change, epoch=0)) == ["UPDATE"]

    assert HeldCopy.objects.count() == 0


def test_a_state_of_an_orchestrator_that_is_replaced_is_kept(held):
    store = the_store()

    assert store.multi_agents.update(held, "graph", {"id": "graph", "step": 2}, epoch=0)

    assert SessionMultiAgent.objects.get().state == {"id": "graph", "step": 2}
    assert kept("orchestrator") == [{"state": {"id": "graph", "step": 1}}]


def test_every_version_of_a_message_that_is_edited_again_is_kept(held):
    store, agent = the_store(), the_agent()

    for text in ("second", "third"):
        store.messages.update(agent, 1, user(text))

    assert store.payloads(agent) == [user("a"), user("third")]
    assert kept("message") == [{"message": user("b")}, {"message": user("second")}]


def test_after_the_release_a_redaction_finds_nothing_that_the_hold_kept(held):
    store, agent = the_store(), the_agent()
    store.messages.update(agent, 1, user("the word is plantedsecret"))
    store.messages.update(agent, 1, user("now plantedsecret differs"))
    legal_hold.release(held.id, reason="closed")

    redact(held.id, Find("plantedsecret"), reason="r")

    assert "plantedsecret" not in str(rows_of(*TABLES, HeldCopy))


def test_a_rewind_under_hold_hides_and_loses_nothing(held):
    store, agent = the_store(), the_agent()

    branch = store.branches.rewind(agent, 0, name="later")

    assert branch is not None
    assert store.payloads(agent) == [user("a")]
    assert store.payloads(agent.on_branch(branch.number)) == [user("a"), user("b")]
    store.branches.switch(agent, branch.number)
    assert store.payloads(agent) == [user("a"), user("b")]


def test_an_agent_appends_under_hold_with_the_statements_of_every_day(store, held):
    agent = the_agent()

    under_hold = statements(lambda: store.append(agent, user("c")))
    legal_hold.release(held.id, reason="closed")
    assert under_hold == statements(lambda: store.append(agent, user("d")))
    assert store.payloads(agent) == [user(text) for text in "abcd"]
