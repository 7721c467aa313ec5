"""A redaction reaches every snapshot, and nothing that was read before brings it back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db.models import F
from strands.agent.conversation_manager import SlidingWindowConversationManager
from strands.types.exceptions import StorageError

from django_agent_sessions.adapters.strands import DjangoStorage
from django_agent_sessions.adapters.strands.snapshots import storage_operations
from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.models import Session, SessionMessage, Snapshot, StoredObject
from django_agent_sessions.testing import columns_containing

from .making import LATEST, build, manager_of, message, run, saved

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "plantedsecret 0815"


def redact_it() -> None:
    redact(Session.objects.get().pk, Find(SECRET), reason="asked for", actor="test")


# Over a second: fifty agents run.
@pytest.mark.large
def test_it_is_in_none_of_fifty_snapshots_and_each_still_runs():
    def windowed(**options: Any) -> Any:
        manager = SlidingWindowConversationManager(window_size=200)
        return build(choose=lambda messages: "I see.", conversation_manager=manager, **options)

    agent = windowed(snapshot_trigger=lambda **more: True)
    agent(f"My code is {SECRET}")
    for number in range(49):
        agent(f"prompt {number}")
    ids = run(manager_of(agent).list_snapshot_ids(agent))
    assert len(ids) == 50

    redact_it()

    assert columns_containing(SECRET) == []
    storage = DjangoStorage()
    for count, name in enumerate(ids, 1):
        again = windowed(storage=storage)
        assert run(manager_of(again).restore_snapshot(again, snapshot_id=name))
        assert len(again.messages) == 2 * count
        assert SECRET not in json.dumps(again.messages)
        again("Go on")
        assert again.messages[-1]["content"] == [{"text": "I see."}]
    for key in run(storage.list()):
        assert SECRET.encode() not in (run(storage.read(key)) or b"")


@pytest.mark.parametrize("tracked", [True, False])
def test_an_agent_that_still_knows_it_does_not_bring_it_back(tracked):
    storage = DjangoStorage()
    first = message(f"My code is {SECRET}", tracked=tracked)
    a, b = message("a", "assistant", tracked), message("b", tracked=tracked)
    state = {"note": f"it is {SECRET}"}
    run(storage.write(LATEST, saved(first, a, state=state)))

    redact_it()
    repeats = message(f"You said {SECRET}", "assistant", tracked)
    run(storage.write(LATEST, saved(first, a, b, state={**state, "n": 1})))
    run(storage.write(LATEST, saved(first, a, b, repeats, state={**state, "n": 2})))
    run(storage.write(LATEST, saved(first, a, b, repeats, message("c"), state={**state, "n": 3})))

    assert columns_containing(SECRET) == []
    again = run(DjangoStorage().read(LATEST))
    assert again is not None
    document = json.loads(again)
    assert SECRET.encode() not in again
    assert document["data"]["state"]["n"] == 3
    assert len(document["data"]["messages"]) == 5
    assert SessionMessage.objects.count() == 5


def test_a_summary_that_repeats_it_does_not_bring_it_back():
    storage = DjangoStorage()
    first, a = message(f"My code is {SECRET}"), message("a", "assistant")
    summary = message(f"The code is {SECRET}")
    run(storage.write(LATEST, saved(first, a)))
    run(storage.write(LATEST, saved(summary, a)))

    redact_it()
    run(storage.write(LATEST, saved(summary, a, message("b"))))

    assert columns_containing(SECRET) == []


def test_another_agent_of_the_process_that_was_restored_since_does_not_hide_that():
    storage = DjangoStorage()
    stale = build("a", f"You said {SECRET}", "c", storage=storage)
    stale.state.set("note", SECRET)
    stale(f"My code is {SECRET}")

    redact_it()
    build("b", storage=storage)("Hello")
    stale("What was it?")

    assert columns_containing(SECRET) == []


@pytest.mark.parametrize("tracked", [True, False])
def test_a_read_after_the_redaction_does_not_hide_what_another_agent_of_the_process_has(tracked):
    storage = DjangoStorage()
    first, a = message(f"My code is {SECRET}", tracked=tracked), message("a", "assistant", tracked)
    run(storage.write(LATEST, saved(first, a)))

    redact_it()
    run(storage.read(LATEST))
    repeats = message(f"You said {SECRET}", "assistant", tracked)
    run(storage.write(LATEST, saved(first, a, repeats, state={"note": SECRET})))

    assert columns_containing(SECRET) == []


@pytest.mark.parametrize("tracked", [True, False])
def test_a_read_after_the_messages_were_evicted_does_not_let_an_old_agent_bring_it_back(
    tracked, monkeypatch
):
    monkeypatch.setattr(storage_operations, "_MAX_BYTES", 500)
    storage = DjangoStorage()
    first, a = message(f"My code is {SECRET}", tracked=tracked), message("a", "assistant", tracked)
    run(storage.write(LATEST, saved(first, a)))
    other = LATEST.replace("session/s/", "session/other/")
    run(storage.write(other, saved(message("x" * 500))))

    redact(Session.objects.get(session_id="s").pk, Find(SECRET), reason="asked for")
    restored = json.loads(run(storage.read(LATEST)) or b"")["data"]["messages"]
    repeats = message(f"You said {SECRET}", "assistant", tracked)
    for old in (saved(first, a, repeats), saved(first, repeats)):
        with pytest.raises(StorageError, match="restore the agent and try again"):
            run(storage.write(LATEST, old))

    assert columns_containing(SECRET) == []
    run(storage.write(LATEST, saved(*restored, message("b"))))
    restored = json.loads(run(storage.read(LATEST)) or b"")["data"]["messages"]
    run(storage.write(LATEST, saved(message("A summary"), *restored[1:])))
    assert columns_containing("A summary")


def test_whoever_was_not_restored_by_this_storage_is_told_to_be():
    run(DjangoStorage().write(LATEST, saved(message(SECRET))))
    redact_it()

    with pytest.raises(StorageError, match="restore the agent and try again"):
        run(DjangoStorage().write(LATEST, saved(message(SECRET), message("b"))))

    assert columns_containing(SECRET) == []


def test_a_redacted_message_stays_redacted_when_the_agent_shortens_it():
    storage = DjangoStorage()
    messages: list[Any] = [message(f"{SECRET} {n}") for n in range(3)]
    run(storage.write(LATEST, saved(*messages)))
    redact_it()
    shorter = {**messages[1], "content": [{"text": f"{SECRET}…"}]}

    run(storage.write(LATEST, saved(messages[0], shorter, messages[2])))

    assert Snapshot.objects.get().messages == [[0, 3]]
    assert columns_containing(SECRET) == []


def test_what_is_stashed_or_kept_verbatim_does_not_bring_it_back():
    storage = DjangoStorage()
    first = message(f"My code is {SECRET}")
    run(storage.write(LATEST, saved(first)))
    redact_it()

    run(storage.write("context/s/scopes/agent/default/a_0", json.dumps([first]).encode()))
    run(storage.write("context/s/scopes/agent/default/b_0", f"It is {SECRET}".encode()))
    run(storage.write(LATEST, json.dumps({"of no kind": [first]}, indent=1).encode()))

    for key in run(storage.list()):
        assert SECRET.encode() not in (run(storage.read(key)) or b"")
    assert StoredObject.objects.count() == 3
    with pytest.raises(StorageError, match=r"restore .*and try again"):
        run(DjangoStorage().write(LATEST, SECRET.encode()))
    restored = DjangoStorage()
    run(restored.read(LATEST))
    run(restored.write(LATEST, b"anything"))


def test_a_moved_epoch_without_a_redaction_changes_nothing():
    storage = DjangoStorage()
    a, b = message("a"), message("b")
    run(storage.write(LATEST, saved(a, state={"n": 1})))
    Session.objects.update(redaction_epoch=F("redaction_epoch") + 1)

    data = saved(a, b, state={"n": 2})
    run(storage.write(LATEST, data))

    assert run(DjangoStorage().read(LATEST)) == data


def test_an_orchestrator_that_still_knows_it_does_not_bring_it_back():
    storage = DjangoStorage()
    key = "session/s/scopes/multiAgent/graph/snapshots/snapshot_latest.json"

    def graph(**state: Any) -> bytes:
        document = {
            "scope": "multiAgent",
            "schema_version": "1.0",
            "created_at": "2026-01-01T00:00:00Z",
            "data": {"orchestrator_id": "graph", "state": {"type": "graph", **state}},
            "app_data": {},
        }
        return json.dumps(document).encode()

    run(storage.write(key, graph(task=f"find {SECRET}", status="executing")))
    redact_it()
    run(storage.write(key, graph(task=f"find {SECRET}", status="completed")))

    assert columns_containing(SECRET) == []
    state = json.loads(run(DjangoStorage().read(key)) or b"")["data"]["state"]
    assert state["status"] == "completed"
    with pytest.raises(StorageError, match=r"restore .*and try again"):
        run(DjangoStorage().write(key, graph(task=SECRET)))


@pytest.mark.parametrize("tracked", [True, False])
def test_a_snapshot_without_the_redacted_message_does_not_quote_it(tracked):
    storage = DjangoStorage()
    first, a = message(f"My code is {SECRET}", tracked=tracked), message("a", "assistant", tracked)
    b = message("b", tracked=tracked)
    run(storage.write(LATEST, saved(first, a, b)))

    redact_it()
    summary = message(f"Summary: the code is {SECRET}", tracked=tracked)
    run(storage.write(LATEST, saved(summary, a, b, message("c", "assistant", tracked))))

    assert columns_containing(SECRET) == []
    assert SECRET.encode() not in (run(storage.read(LATEST)) or b"")
