"""Each damage is found by its code, and mended where that is promised."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.files.storage import storages
from django.utils import timezone

from django_agent_sessions import usage
from django_agent_sessions.integrity import Kind, batch, checker, row_batches
from django_agent_sessions.models import (
    Blob,
    BlobReference,
    Branch,
    RunLease,
    Session,
    SessionAgent,
    SessionMessage,
    SessionMultiAgent,
    Snapshot,
    StoredObject,
    StoredPart,
    TurnUsage,
    UsageRollup,
)
from django_agent_sessions.models.fields import CorruptPayload
from django_agent_sessions.store import SessionStore
from django_agent_sessions.store.snapshots import SnapshotStorageStore
from django_agent_sessions.values.ids import new_id
from django_agent_sessions.values.records import AgentRecord
from tests.blobs.messages import image, picture, user
from tests.sealed import update_content
from tests.texts import with_text

from .healthy import TEXTS, said, talk, travelled, with_binaries
from .running import check, codes
from .steps import closed, rows, take

pytestmark = pytest.mark.django_db

Damage = Callable[[SessionStore], Any]

PLANTED: dict[str, tuple[str, Damage]] = {}
"""By what is done: the code that it is found by, and how it is done."""


def planted(code: str) -> Callable[[Damage], Damage]:
    def name(damage: Damage) -> Damage:
        PLANTED[damage.__name__] = (code, damage)
        return damage

    return name


@planted("gap")
def a_message_was_deleted(store):
    take(talk(store), 2)


@planted("gap")
def the_first_message_was_deleted(store):
    take(talk(store), 0)


@planted("corrupt")
def a_payload_was_damaged(store):
    rows(talk(store), 1).update(message=CorruptPayload('{"role": "user", "con'))


@planted("orphan-result")
def a_result_answers_nothing(store):
    result = {"toolResult": {"toolUseId": "t", "status": "success", "content": []}}
    store.append(talk(store), {"role": "user", "content": [result]})


@planted("orphan-result")
def a_result_was_doubled(store):
    agent = store.agents.open(store.open("items"))
    call = {"type": "function_call", "call_id": "c", "name": "add", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c", "output": "3"}
    store.append_many(agent, [call, result, result])


@planted("answered-twice")
def a_call_was_taken_for_interrupted_while_it_was_answered(store):
    call = {"toolUse": {"toolUseId": "t", "name": "add", "input": {}}}
    agent = talk(store)
    store.append(agent, {"role": "assistant", "content": [call]})
    for answer in ("3", "Tool was interrupted."):
        result = {"toolUseId": "t", "status": "success", "content": [{"text": answer}]}
        store.append(agent, {"role": "user", "content": [{"toolResult": result}]})


@planted("orphan-result")
def a_chat_message_answers_nothing(store):
    agent = store.agents.open(store.open("items"))
    store.append(agent, {"role": "tool", "tool_call_id": "c", "content": "3"})


@planted("open-call")
def a_run_was_interrupted(store):
    agent = store.agents.open(store.open("items"))
    call = {"id": "c", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    store.append(agent, {"role": "assistant", "content": None, "tool_calls": [call]})


@planted("open-call")
def a_strands_run_was_interrupted(store):
    call = {"toolUse": {"toolUseId": "t", "name": "add", "input": {}}}
    store.append(talk(store), {"role": "assistant", "content": [call]})


@planted("neutral-columns")
def the_text_is_not_what_was_said(store):
    rows(talk(store), 1).update(text="other", role="assistant")


@planted("neutral-columns")
def the_figures_are_not_what_was_reported(store):
    rows(talk(store), 1).update(input_tokens=-3)


@planted("misplaced")
def messages_are_in_another_session(store):
    agent = talk(store)
    rows(agent, 1).update(session=talk(store, "other").session)
    Session.objects.filter(pk=agent.session).update(message_count=4)
    Session.objects.exclude(pk=agent.session).update(message_count=6)


@planted("misplaced")
def a_snapshot_is_in_another_session(store):
    agent = talk(store)
    store.snapshots.take(agent)
    Snapshot.objects.update(session=talk(store, "other").session)


@planted("misplaced")
def a_branch_is_in_another_session(store):
    travelled(store)
    Branch.objects.filter(number=2).update(session=talk(store, "other").session)


@planted("misplaced")
def a_turn_is_in_another_session(store):
    travelled(store)
    TurnUsage.objects.update(session=talk(store, "other").session, input_tokens=0, output_tokens=0)


@planted("window")
def a_window_is_none(store):
    update_content(
        SessionAgent.objects.filter(pk=talk(store).id), {"window": {"kept": "all", "tail": -1}}
    )


@planted("window-past-end")
def a_window_is_of_more_messages(store):
    update_content(
        SessionAgent.objects.filter(pk=talk(store).id), {"window": {"kept": [[0, 1]], "tail": 9}}
    )


@planted("branch")
def a_branch_is_called_as_the_main_one(store):
    travelled(store)
    Branch.objects.filter(number=2).update(name="main")


@planted("branch-unnamed")
def a_branch_lost_its_row(store):
    travelled(store)
    Branch.objects.filter(number=2)._raw_delete("default")


@planted("branch-base")
def a_branch_was_shortened(store):
    agent = travelled(store)
    while store.pop(agent.on_branch(2)):
        pass


@planted("snapshot")
def a_snapshot_refers_to_nothing(store):
    travelled(store)
    update_content(_first_snapshot(), {"messages": [[3, 1]]})


@planted("snapshot")
def a_snapshot_is_shorter_than_its_messages(store):
    travelled(store)
    _first_snapshot().update(length=1, tail=None)


@planted("snapshot")
def a_snapshot_is_of_nobody(store):
    travelled(store)
    _first_snapshot().update(agent=None)


@planted("snapshot-cut")
def messages_of_a_snapshot_were_popped(store):
    agent = talk(store)
    store.snapshots.take(agent)
    store.pop(agent)
    store.append(agent, said("other"))


@planted("fork")
def a_fork_forgot_its_line(store):
    travelled(store)
    Session.objects.filter(session_id="forked").update(origin={})


@planted("corrupt-state")
def a_state_was_damaged(store):
    SessionAgent.objects.filter(pk=talk(store).id).update(state=CorruptPayload("{"))


@planted("corrupt-state")
def a_conversation_manager_counts_in_words(store):
    update_content(
        SessionAgent.objects.filter(pk=talk(store).id),
        {"conversation_manager_state": {"removed_message_count": "three"}},
    )


@planted("corrupt-state")
def a_snapshots_document_was_damaged(store):
    travelled(store)
    Snapshot.objects.filter(branch=0).update(document=CorruptPayload("{"))


@planted("corrupt-state")
def an_orchestrator_was_damaged(store):
    store.multi_agents.create(store.open("graph"), "g", {})
    SessionMultiAgent.objects.update(state=CorruptPayload("{"))


@planted("stored-object")
def a_part_of_an_object_was_lost(store):
    SnapshotStorageStore(SessionStore()).write_object("key", b"x" * 100)
    StoredPart.objects.all().delete()


@planted("stored-object")
def an_object_of_a_session_is_longer_than_it_says(store):
    talk(store)
    SnapshotStorageStore(SessionStore()).write_object("key", b"x" * 100, session=store.get("talk"))
    StoredObject.objects.update(size=99)


@planted("blob-unknown")
def the_row_of_a_binary_was_lost(store):
    blobs = Blob.objects.filter(session=with_binaries(store).session)
    first = blobs.values_list("pk", flat=True)[0]
    BlobReference.objects.filter(blob=first).delete()
    blobs.filter(pk=first)._raw_delete("default")


@planted("blob-uses")
def a_use_was_not_noted(store):
    agent, twice = talk(store), picture()
    store.append_many(agent, [user(image(twice)), user(image(twice))])
    BlobReference.objects.filter(message=rows(agent, 5).get().pk).delete()


@planted("blob-uses")
def a_use_is_of_a_message_that_is_gone(store):
    with_binaries(store)
    blob = _picture()
    BlobReference.objects.create(session_id=blob.session_id, message=new_id(), blob=blob)


@planted("blob-unused")
def a_binary_is_used_by_nobody(store):
    with_binaries(store)
    used = _picture().references.get()
    holder = SessionMessage.objects.filter(pk=used.message)
    BlobReference.objects.filter(message=used.message).delete()
    (new,) = with_text("one", SessionMessage.objects.filter(session=_picture().session_id))
    update_content(holder, {"message": new.message}, text=new.text)


@planted("counters")
def a_process_died_before_the_end_of_its_turn(store):
    metadata = {"usage": {"inputTokens": 7, "outputTokens": 2}}
    store.append(talk(store), {**said("x", "assistant"), "metadata": metadata}, count=False)


@planted("counters")
def a_pop_was_not_counted(store):
    Session.objects.filter(pk=talk(store).session).update(message_count=6)


@planted("counters")
def an_error_was_not_counted(store):
    failed(store)
    Session.objects.update(error_count=0)


@planted("counters")
def the_list_does_not_find_an_error(store):
    failed(store)
    Session.objects.update(has_errors=False)


@planted("neutral-columns")
def an_error_was_written_by_an_earlier_release(store):
    failed(store)
    SessionMessage.objects.update(has_error=False)
    Session.objects.update(error_count=0, has_errors=False)


@planted("lease")
def a_lease_was_never_given_back(store):
    long_ago = timezone.now() - timedelta(days=3)
    RunLease.objects.create(session_id=talk(store).session, expires_at=long_ago)


@planted("usage")
def a_rolled_up_day_lost_messages(store):
    talk(store)
    usage.roll_up(until=timezone.now() + timedelta(minutes=1))
    UsageRollup.objects.filter(dimension="day").update(messages=1)


@planted("blob-missing")
def a_file_was_deleted(store):
    with_binaries(store)
    _file().unlink()


@planted("blob-damaged")
def a_file_was_damaged(store):
    with_binaries(store)
    _file().write_bytes(b"?" * _file().stat().st_size)


def failed(store: SessionStore) -> AgentRecord:
    """A conversation with a tool that failed."""
    agent = talk(store)
    call = {"toolUse": {"toolUseId": "t", "name": "add", "input": {}}}
    store.append_many(agent, [{"role": "assistant", "content": [call]}, answer("error")])
    return agent


def answer(status: str) -> dict[str, Any]:
    result = {"toolUseId": "t", "status": status, "content": [{"text": "3"}]}
    return {"role": "user", "content": [{"toolResult": result}]}


def _first_snapshot() -> Any:
    return Snapshot.objects.filter(pk__in=list(Snapshot.objects.values_list("pk", flat=True)[:1]))


def _picture() -> Blob:
    blob = Blob.objects.filter(session__session_id="pictures").first()
    assert blob is not None
    return blob


def _file() -> Path:
    return Path(storages["blobs"].path(_picture().file))


@pytest.mark.parametrize("deed", PLANTED)
def test_each_damage_is_found_and_mended_where_that_is_promised(deed, store, blob_folder):
    code, damage = PLANTED[deed]
    kind = next(kind for kind in Kind if kind.code == code)
    damage(store)

    found, summary = check("--blobs")

    assert {finding["code"] for finding in found} == {code}
    assert all(finding["severity"] == kind.severity.value for finding in found)
    assert summary["found"] == {code: len(found)}
    assert (summary["left"] == 0) == (kind.severity.value == "note")

    mended, _ = check("--fix", "--blobs")

    assert {finding["mended"] for finding in mended if finding["code"] == code} == {kind.mendable}
    again = codes("--blobs")
    assert again == ([] if kind.mendable else [finding["code"] for finding in found])


def test_every_code_is_on_the_page_as_it_is():
    page = (Path(__file__).resolve().parents[2] / "docs" / "how-to" / "integrity.md").read_text()
    said = re.findall(r"^\| `([\w-]+)` \| (error|warning|note) \| (yes )?\|", page, re.MULTILINE)
    assert [(code, severity, bool(mends)) for code, severity, mends in said] == [
        (kind.code, kind.severity.value, kind.mendable) for kind in Kind
    ]


def test_every_code_is_planted_here_or_below():
    # The trigger is in tests/audit/test_trigger.py, files in tests/blobs/test_files_to_delete.py.
    below = {"counting", "blob-files", "blob-storage", "call-elsewhere", "trigger"}
    # And encryption in tests/encryption/test_destroyed_keys.py and test_check.py.
    below |= {"file-to-delete", "key-destroyed", "not-encrypted"}
    assert {code for code, _ in PLANTED.values()} | below == {kind.code for kind in Kind}


def test_a_result_whose_call_was_set_aside_is_told_from_one_without_a_call(store):
    agent = talk(store)
    store.append(agent, {"role": "user", "content": [{"text": "Add."}]})
    call = {"toolUse": {"toolUseId": "t", "name": "add", "input": {}}}
    asked = store.append(agent, {"role": "assistant", "content": [call]})
    store.branches.rewind(agent, asked.message_id - 1)
    result = {"toolResult": {"toolUseId": "t", "status": "success", "content": []}}
    store.append(agent, {"role": "user", "content": [result]})
    # Which has the main branch, and not the call.
    fork = store.sessions.fork(store.get("talk"))
    store.sessions.fork(fork)

    found, summary = check()

    told = ["call-elsewhere"] * 3 + ["open-call"]
    assert sorted(finding["code"] for finding in found) == told
    assert summary["left"] == 0


def test_a_hundred_of_a_kind_are_listed_and_all_are_mended(store):
    agent = talk(store)
    store.append_many(agent, [said(f"number {number}") for number in range(250)])
    rows(agent).update(role="")

    found, summary = check()
    assert (len(found), summary["unlisted"]) == (100, 155)

    check("--fix")
    assert codes() == []
    assert closed(agent)[:5] == list(enumerate(TEXTS))


def test_files_that_no_row_names_are_found_and_deleted(store, blob_folder):
    with_binaries(store)
    lost = _file().with_name("lost")
    lost.write_bytes(b"lost")
    os.utime(lost, (0, 0))

    assert codes() == []
    assert codes("--blobs") == ["blob-files"]
    assert codes("--blobs", "--fix") == ["blob-files"]
    assert not lost.exists()
    assert codes("--blobs") == []


def test_a_storage_that_does_not_answer_is_told(store, blob_folder, settings):
    talk(store)
    settings.AGENT_SESSIONS = {**settings.AGENT_SESSIONS, "BLOB_STORAGE": "nowhere"}

    assert codes("--blobs") == ["blob-storage"]


def test_what_is_written_during_the_look_is_no_finding(store, monkeypatch):
    agent = talk(store)
    read, lock = row_batches.row_batches, checker._lock_sessions
    appended: list[Any] = []
    locked: list[Any] = []

    def append_first(*arguments: Any) -> Any:
        # The session is read, and its messages are not counted yet.
        if not appended:
            appended.append(store.append(agent, said("six")))
        return read(*arguments)

    def lock_and_tell(using: str, sessions: Any) -> None:
        locked.extend(sessions)
        lock(using, sessions)

    monkeypatch.setattr(batch, "row_batches", append_first)
    monkeypatch.setattr(checker, "_lock_sessions", lock_and_tell)

    assert codes() == []
    assert locked == [agent.session]


def test_a_long_session_is_looked_at_again_without_being_locked(store, monkeypatch):
    agent = talk(store)
    monkeypatch.setattr(checker, "_MAX_LOCKED_MESSAGES", 4)
    monkeypatch.delattr(checker, "_lock_sessions")
    take(agent, 2)
    store.append(agent, said("six"))

    assert codes() == ["gap"]


def test_tokens_of_a_message_of_which_only_copies_are_left_are_counted_once(store):
    agent = talk(store)
    metadata = {"usage": {"inputTokens": 7, "outputTokens": 2}}
    store.append(agent, {**said("x", "assistant"), "metadata": metadata})
    for _ in range(3):
        branch = store.branches.create(agent)
    store.branches.delete(agent, store.branches.switch(agent, branch.number).number)
    store.append(agent, {**said("y", "assistant"), "metadata": metadata})
    session = Session.objects.filter(pk=agent.session)
    tokens = session.values_list("input_tokens", "output_tokens")
    # As after each deletion, because they were paid for.
    assert tokens.get() == (14, 4)
    assert codes() == []

    session.update(input_tokens=13, output_tokens=None)
    assert codes("--fix") == ["counters"]
    assert tokens.get() == (14, 4)
