"""What happens when a connection breaks while somebody writes.

The faults are injected into the real thing: the statement really runs and its connection is
really cut, before or after the work was done.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import InterfaceError, connection, transaction
from django.db.utils import Error
from django.utils import timezone

from django_agent_sessions.exceptions import SessionConflictError
from django_agent_sessions.models import AuditEvent, Session, SessionMessage
from django_agent_sessions.store import session_record
from django_agent_sessions.values.records import AgentState, NewMessage, Usage

from .cutting import commit_lost, cut, cut_the_wire, user

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("reconnected")]


@contextmanager
def outage(*, done: bool) -> Iterator[None]:
    """Lets nothing through.

    Args:
        done: Whether the first statement is done, and only its answer does not arrive.
    """
    met: list[str] = []

    def execute_and_fail(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        if done and not met:
            execute(sql, *rest)
        met.append(sql)
        raise InterfaceError("the server is away")

    with connection.execute_wrapper(execute_and_fail):
        yield


@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize("count", [1, 3])
def test_a_lost_answer_to_an_append_duplicates_and_loses_nothing(store, agent, done, count):
    store.append(agent, user("before"))
    batch = [user(str(number)) for number in range(count)]

    with cut("INSERT", done=done):
        records = store.append_many(agent, batch)

    assert [record.message_id for record in records] == list(range(1, count + 1))
    assert store.payloads(agent) == [user("before"), *batch]
    assert store.sessions.usage("session-1") == Usage(count + 1)


def test_a_lost_answer_to_the_commit_of_a_long_batch(store, agent):
    batch = [user(str(number)) for number in range(450)]

    with commit_lost():
        records = store.append_many(agent, batch)

    assert [record.message_id for record in records] == list(range(450))
    assert store.payloads(agent) == batch


def test_a_batch_that_broke_off_half_way_is_written_once(store, agent):
    batch = [user(str(number)) for number in range(450)]
    met = []

    def cut_the_second(execute, sql, params, many, context):
        if sql.startswith("INSERT"):
            met.append(sql)
            if len(met) == 2:
                cut_the_wire()
                raise InterfaceError("the answer did not arrive")
        return execute(sql, params, many, context)

    with connection.execute_wrapper(cut_the_second):
        store.append_many(agent, batch)

    assert store.payloads(agent) == batch


@pytest.mark.parametrize("done", [True, False])
def test_a_connection_that_breaks_again_and_again_is_tried_again_and_again(store, agent, done):
    with cut("INSERT", done=done), cut("SELECT", done=False):
        record = store.append(agent, user("a"))

    assert record.message_id == 0
    assert store.payloads(agent) == [user("a")]


@pytest.mark.parametrize("done", [True, False])
def test_an_outage_that_lasts_is_the_callers_to_see_and_to_retry(store, agent, settings, done):
    settings.AGENT_SESSIONS = {"RETRY_SECONDS": 0.1}
    new = NewMessage(user("a"))

    with pytest.raises(InterfaceError), outage(done=done):
        store.append(agent, new)
    connection.close()

    # Where it was one statement, it was committed if it was done.
    assert len(store.payloads(agent)) in ((0, 1) if done else (0,))
    assert store.append(agent, new, again=True).message_id == 0
    assert store.payloads(agent) == [user("a")]


@pytest.mark.parametrize("done", [True, False])
def test_a_lost_answer_to_making_something_makes_it_once(store, done):
    with cut("INSERT", done=done):
        session = store.create("s")
    with cut("INSERT", done=done):
        agent = store.agents.create(session, "a")
    with cut("INSERT", done=done):
        store.multi_agents.create(session, "m", {"a": 1})

    assert store.get("s") == session
    assert [found.id for found in store.agents.list(session)] == [agent.id]
    assert store.multi_agents.find(session, "m").state == {"a": 1}


@pytest.mark.parametrize("done", [True, False])
def test_a_lost_answer_to_an_update_leaves_it_done(store, session, agent, done):
    store.append(agent, user("a"))
    with cut("UPDATE", done=done):
        store.messages.update(agent, 0, user("b"))
    with cut("UPDATE", done=done):
        store.agents.update(agent, AgentState(state={"a": 1}))

    assert store.payloads(agent) == [user("b")]
    assert store.agents.open(session).data.state == {"a": 1}


def test_a_lost_answer_to_a_redaction_leaves_it_done(store, agent):
    store.append(agent, user("plantedsecret"))
    with commit_lost():
        store.messages.redact(agent, 0, user("[gone]"))
    with cut("UPDATE", done=False):
        store.messages.redact(agent, 0, user("[again]"))

    assert store.payloads(agent) == [user("[again]")]
    assert AuditEvent.objects.count() == 2


def test_a_lost_answer_to_a_turn_never_counts_tokens_twice(store, session, caplog):
    with cut("UPDATE", done=True):
        store.touch(session.id, Usage(1, 10, 5))

    assert store.sessions.usage("session-1") == Usage(1, 10, 5)
    assert f"the counters of session {session.id} may miss a turn" in caplog.text


def test_a_turn_whose_counting_was_lost_is_logged_and_counted_by_the_repair(store, agent, caplog):
    store.append(agent, user("a"), count=False)
    with cut("UPDATE", done=False):
        store.touch(agent.session, Usage(1))

    assert store.sessions.usage("session-1").messages == 0
    assert f"the counters of session {agent.session} may miss a turn" in caplog.text
    Session.objects.update(last_activity_at=timezone.now() - timedelta(days=1))
    SessionMessage.objects.update(created_at=timezone.now() - timedelta(days=1))
    call_command("agent_sessions_check", "--fix", stdout=io.StringIO())
    assert store.sessions.usage("session-1").messages == 1


@pytest.mark.parametrize("lose", [commit_lost, lambda: cut("DELETE", done=False)])
def test_a_lost_answer_to_a_deletion_still_says_that_there_was_one(store, session, agent, lose):
    store.append(agent, user("a"))
    with lose():
        assert store.delete("session-1") is True

    assert store.find("session-1") is None
    assert store.delete("session-1") is False


LOST = {
    "at the statement": lambda: cut("DELETE", done=False),
    "after the statement": lambda: cut("DELETE", done=True),
    "after the commit": commit_lost,
}


@pytest.mark.parametrize("lose", LOST.values(), ids=LOST)
def test_a_lost_answer_to_a_pop_takes_one_message(store, agent, lose):
    store.append_many(agent, [user("a"), user("b"), user("c")])

    with lose():
        assert store.pop(agent) == user("c")

    assert store.payloads(agent) == [user("a"), user("b")]
    assert store.sessions.usage("session-1") == Usage(2)


@pytest.mark.parametrize("lose", LOST.values(), ids=LOST)
def test_a_lost_answer_to_a_clearing_tells_how_many_there_were(store, agent, lose):
    store.append_many(agent, [user("a"), user("b"), user("c")])

    with lose():
        assert store.clear(agent) == 3

    assert store.payloads(agent) == []
    assert store.sessions.usage("session-1") == Usage(0)


def test_a_pop_in_doubt_that_somebody_came_behind_is_the_callers_to_clear_up(store, agent):
    store.append_many(agent, [user("a"), user("b"), user("c")])

    def pop_too() -> None:
        store.pop(agent)
        connection.close()

    with (
        pytest.raises(SessionConflictError, match="a message may have been deleted"),
        ThreadPoolExecutor(1) as other,
        commit_lost(then=lambda: other.submit(pop_too).result()),
    ):
        store.pop(agent)

    assert store.payloads(agent) == [user("a")]


def branched(store, agent) -> int:
    store.append_many(agent, [user("a"), user("b")])
    number: int = store.branches.create(agent, name="side", upto=1).number
    return number


CHANGES: dict[str, Callable[..., Any]] = {
    "rewind": lambda store, agent, side: store.branches.rewind(agent, 0),
    "switch": lambda store, agent, side: store.branches.switch(agent, side),
    "create": lambda store, agent, side: store.branches.create(agent),
    "delete": lambda store, agent, side: store.branches.delete(agent, side),
    "fork": lambda store, agent, side: store.sessions.fork(
        session_record(Session.objects.get(pk=agent.session))
    ),
    "keep": lambda store, agent, side: store.snapshots.take(agent),
    "redact": lambda store, agent, side: store.messages.redact(agent, 0, user("[gone]")),
    "restore": lambda store, agent, side: store.snapshots.restore(
        agent, store.snapshots.list(agent)[0].id
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_lost_answer_to_the_commit_of_a_change_makes_it_once(store, agent, change):
    """Beside the same change of another session, whose connection held."""
    other = store.agents.open(store.open("session-2"), dialect=agent.dialect)
    outcomes = []
    for one, lose in ((agent, commit_lost), (other, nullcontext)):
        side = branched(store, one)
        store.snapshots.take(one)
        store.append(one, user("c"))
        with lose():
            change(store, one, side)
        outcomes.append(
            (
                store.payloads(one),
                [(branch.name, branch.length) for branch in store.branches.list(one)],
                len(store.snapshots.list(one)),
                Session.objects.filter(forked_from=one.session).count(),
                Session.objects.values_list("redaction_epoch", "redactions", "message_count").get(
                    pk=one.session
                ),
                AuditEvent.objects.filter(session=one.session).count(),
            )
        )

    assert outcomes[0] == outcomes[1]


def test_in_a_transaction_a_lost_connection_is_the_callers_to_see(store, agent):
    store.append(agent, user("before"))

    def write_and_lose() -> None:
        store.append(agent, user("gone with the transaction"))
        with cut("INSERT", done=True):
            store.append(agent, user("gone too"))

    with pytest.raises(Error), transaction.atomic():
        write_and_lose()
    assert store.payloads(agent) == [user("before")]
