"""The counters of a session: a message counts once, however many copies branches have of it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone

from django_agent_sessions.integrity import Check, Finding, Kind
from django_agent_sessions.interchange.jsonl_export import export_sessions
from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.models.session_names import by_key
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.records import AgentRecord, Usage
from tests.threads import elsewhere

pytestmark = pytest.mark.django_db(transaction=True)

LONG_AGO = timezone.now() - timedelta(days=400)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


@pytest.fixture
def agent() -> AgentRecord:
    """An agent that said six things long ago."""
    store = SessionStore()
    agent = store.agents.open(store.open("s"))
    store.append_many(agent, [user(str(number)) for number in range(6)])
    Session.objects.update(last_activity_at=LONG_AGO)
    return agent


def counted(session_id: str = "s") -> int:
    session = Session.objects.get(session_id=session_id)
    assert not any(finding.kind is Kind.COUNTERS for finding in checked())
    return session.message_count


def checked(*, mend: bool = False) -> list[Finding]:
    check = Check(mend=mend, grace=timedelta(0))
    return [result.finding for result in check.run()]


def is_as_old() -> bool:
    return Session.objects.get(session_id="s").last_activity_at == LONG_AGO


def test_turns_of_writers_at_once_are_all_counted():
    """MariaDB looks the session up in its owner's index, where each of them moves its entry."""
    store = SessionStore()
    key = by_key(store.open("s").id)

    def take_turns() -> None:
        for _ in range(50):
            store.touch(key, Usage(messages=1))

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(elsewhere, [take_turns] * 2)) == [None, None]

    assert Session.objects.get().message_count == 100


def test_a_rewind_counts_no_copy_and_is_no_activity(agent):
    SessionStore().branches.rewind(agent, 2)

    assert SessionMessage.objects.count() == 9
    assert counted() == 6
    assert is_as_old()


def test_what_is_said_after_a_rewind_is_counted_and_is_activity(agent):
    store = SessionStore()
    store.branches.rewind(agent, 2)
    store.append(agent, user("other"))

    assert counted() == 7
    assert not is_as_old()


def test_switching_counts_nothing(agent):
    store = SessionStore()
    branch = store.branches.rewind(agent, 2)
    assert branch is not None
    store.branches.switch(agent, branch.number)

    assert counted() == 6
    assert is_as_old()


def test_creating_and_setting_aside_count_nothing(agent):
    store = SessionStore()
    store.branches.create(agent, upto=4)
    store.branches.set_aside(agent, 1)

    assert SessionMessage.objects.count() == 12
    assert counted() == 6
    assert is_as_old()


@pytest.mark.parametrize(("switched", "left"), [(False, 3), (True, 6)])
def test_deleting_a_branch_subtracts_what_no_other_branch_has(agent, switched, left):
    store = SessionStore()
    branch = store.branches.rewind(agent, 2)
    assert branch is not None
    number = branch.number
    if switched:
        # Then the side branch has the first messages, and the main branch their copies.
        number = store.branches.switch(agent, number).number
    store.branches.delete(agent, number)

    assert counted() == left
    assert is_as_old()


def test_a_pop_subtracts_a_message_without_copies_only(agent):
    store = SessionStore()
    store.pop(agent)
    assert counted() == 5

    # The first messages of the side branch are copies, and their originals can be popped.
    store.branches.rewind(agent, 2)
    store.pop(agent)
    assert counted() == 5
    store.pop(agent.on_branch(1))
    assert counted() == 4
    assert is_as_old()


def test_clearing_a_branch_keeps_what_the_others_have(agent):
    store = SessionStore()
    store.branches.rewind(agent, 2)
    store.clear(agent)
    assert counted() == 6

    store.clear(agent.on_branch(1))
    assert counted() == 0
    assert is_as_old()


def test_a_restored_snapshot_counts_no_copy(agent):
    store = SessionStore()
    snapshot = store.snapshots.take(agent)
    store.append(agent, user("more"))
    Session.objects.update(last_activity_at=LONG_AGO)
    store.snapshots.restore(agent, snapshot.id)

    assert counted() == 7
    assert is_as_old()


def test_a_fork_counts_its_own_messages_once(agent):
    store = SessionStore()
    store.branches.rewind(agent, 2)
    store.sessions.fork(store.get("s"), session_id="fork")
    assert counted("fork") == 3

    copy = store.agents.find(store.get("fork"), agent.agent_id)
    assert copy is not None
    store.branches.rewind(copy, 0)
    assert counted("fork") == 3
    assert is_as_old()


def test_the_check_repairs_counters_that_count_copies(agent):
    SessionStore().branches.rewind(agent, 2)
    Session.objects.update(message_count=9)
    assert [finding.kind for finding in checked()] == [Kind.COUNTERS]

    checked(mend=True)

    assert counted() == 6


def test_an_import_counts_no_copy(agent, tmp_path):
    store = SessionStore()
    branch = store.branches.rewind(agent, 2)
    assert branch is not None
    store.branches.switch(agent, branch.number)
    lines = tmp_path / "sessions.jsonl"
    lines.write_text("".join(export_sessions(Session.objects.all())))
    call_command("agent_sessions_import", "jsonl", str(lines), "--namespace", "copy", verbosity=0)

    # The keys of the messages are in use, so that the imported ones have new ones.
    assert SessionMessage.objects.count() == 18
    assert set(Session.objects.values_list("message_count", flat=True)) == {6}
    assert not any(finding.kind is Kind.COUNTERS for finding in checked())
