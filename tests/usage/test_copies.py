"""A message is counted exactly once, also if its original is deleted and only copies are left."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_agent_sessions import usage
from django_agent_sessions.models import Session, SessionMessage, UsageCursor, UsageRollup
from django_agent_sessions.models.functions import one_row_each, without_original
from django_agent_sessions.store import SessionStore
from django_agent_sessions.usage import rollups
from django_agent_sessions.values.ids import id_for_time
from django_agent_sessions.values.records import AgentRecord, NewMessage, Usage

from .usage_data import NOON, latencies_counted

pytestmark = pytest.mark.django_db

PRICES = {"m": {"input": 1, "output": 2}}


@pytest.fixture
def store(ada, settings) -> SessionStore:
    settings.AGENT_SESSIONS = {"PRICES": PRICES}
    return SessionStore(owner=ada)


def soon() -> datetime:
    return timezone.now() + timedelta(seconds=5)


def talk(store: SessionStore, name: str = "talk", at: datetime = NOON) -> AgentRecord:
    """A conversation of five messages, each a minute after another; one reports an error."""
    agent = store.agents.open(store.open(name), "a", dialect="strands")
    for number in range(5):
        moment = at + timedelta(minutes=number)
        result = {"toolUseId": "t", "status": "error", "content": []}
        content: dict[str, Any] = {"toolResult": result} if number == 1 else {"text": "words"}
        store.append(
            agent,
            NewMessage(
                {"role": "user", "content": [content]},
                id=id_for_time(moment, number),
                created_at=moment,
                usage=Usage(input_tokens=10, output_tokens=1),
                model="m",
            ),
        )
    SessionMessage.objects.filter(agent=agent.id).update(latency_ms=100)
    return agent


def only_copies_are_left(store: SessionStore, agent: AgentRecord) -> None:
    """Leaves three copies of each of the first two messages; all five are left."""
    side = store.branches.rewind(agent, 1)
    assert side is not None
    former = store.branches.switch(agent, side.number)
    for _ in range(2):
        store.branches.create(agent, upto=2)
    store.branches.delete(agent, former.number)
    rows = SessionMessage.objects.filter(agent=agent.id)
    assert (rows.count(), rows.filter(source=None).count()) == (9, 3)


def counted() -> dict[str, tuple[Any, ...]]:
    """The figures of each dimension, summed up."""
    found: dict[str, tuple[Any, ...]] = {}
    latencies: Counter[str] = Counter()
    for (dimension, _, _), number in latencies_counted().items():
        latencies[dimension] += number
    names = ("messages", "errors", "input_tokens", "output_tokens")
    for dimension in UsageRollup.Dimension:
        rows = list(UsageRollup.objects.filter(dimension=dimension))
        sums = [sum(getattr(row, name) or 0 for row in rows) for name in names]
        cost = usage.amount(sum(row.cost or 0 for row in rows))
        found[str(dimension)] = (*sums, latencies[dimension], cost)
    return found


def each(messages: int, errors: int) -> dict[str, tuple[Any, ...]]:
    cost = Decimal(messages * 12) / 1_000_000
    figures = (messages, errors, messages * 10, messages, messages, cost)
    return {str(dimension): figures for dimension in UsageRollup.Dimension}


def test_a_first_roll_up_and_a_rebuild_count_a_message_whose_original_is_deleted_once(store):
    agent = talk(store)
    only_copies_are_left(store, agent)

    assert usage.roll_up().messages == 5
    assert counted() == each(5, 1)
    assert usage.roll_up(until=soon()).messages == 0
    assert usage.rebuild(until=soon()).messages == 5
    assert counted() == each(5, 1)
    # The copies on the main branch are counted, so that the agent began a conversation.
    assert UsageRollup.objects.get(dimension="agent").sessions == 1


@pytest.mark.parametrize("batch", [1, 100])
def test_an_agent_began_a_conversation_whose_first_message_is_on_a_side_branch(store, batch):
    agent, _other = talk(store), talk(store, "other")
    side = store.branches.rewind(agent, 1)
    assert side is not None
    former = store.branches.switch(agent, side.number)
    original = SessionMessage.objects.get(agent=agent.id, message_id=0, source=None)
    assert original.branch == former.number

    assert usage.roll_up(until=soon(), batch=batch).messages == 10

    assert UsageRollup.objects.get(dimension="agent").sessions == 2


def rewind_all(store: SessionStore, agent: AgentRecord) -> None:
    store.branches.rewind(agent, -1)


def compact_all(store: SessionStore, agent: AgentRecord) -> None:
    rows = SessionMessage.objects.filter(agent=agent.id, branch=0).order_by("message_id")
    epoch = store.get("talk").redaction_epoch
    keys = list(rows.values_list("pk", flat=True))
    store.branches.compact(agent, [{"role": "user", "content": []}], keys, epoch=epoch)


def rewind_all_and_switch_back(store: SessionStore, agent: AgentRecord) -> None:
    side = store.branches.rewind(agent, -1)
    assert side is not None
    store.append(agent, {"role": "user", "content": []})
    store.branches.switch(agent, side.number)


def compact_all_without_history(store: SessionStore, agent: AgentRecord) -> None:
    rows = SessionMessage.objects.filter(agent=agent.id, branch=0).order_by("message_id")
    epoch = store.get("talk").redaction_epoch
    keys = list(rows.values_list("pk", flat=True))
    summary = [{"role": "user", "content": []}]
    store.branches.compact(agent, summary, keys, epoch=epoch, keep_history=False)


def pop_all(store: SessionStore, agent: AgentRecord) -> None:
    while store.pop(agent) is not None:
        pass


def clear(store: SessionStore, agent: AgentRecord) -> None:
    store.clear(agent)


@pytest.mark.parametrize("begin_again", [compact_all_without_history, pop_all, clear])
def test_a_conversation_whose_first_message_is_gone_is_not_counted_again(store, begin_again):
    agent = talk(store, at=timezone.now() - timedelta(hours=1))
    for _ in range(3):
        usage.roll_up(until=soon())
        begin_again(store, agent)
        store.append(agent, {"role": "user", "content": []})
    usage.roll_up(until=soon())

    assert sum(row.sessions for row in UsageRollup.objects.filter(dimension="agent")) == 1


@pytest.mark.parametrize("begin_again", [compact_all_without_history, pop_all, clear])
def test_a_conversation_whose_first_message_goes_before_it_was_counted_is_counted(
    store, begin_again
):
    agent = talk(store, at=timezone.now() - timedelta(hours=1))
    begin_again(store, agent)
    store.append(agent, {"role": "user", "content": []})
    usage.roll_up(until=soon())

    assert sum(row.sessions for row in UsageRollup.objects.filter(dimension="agent")) == 1


@pytest.mark.parametrize("batch", [1, 100])
@pytest.mark.parametrize("counted_before", [True, False])
@pytest.mark.parametrize("begin_again", [rewind_all, compact_all, rewind_all_and_switch_back])
def test_a_conversation_with_another_first_message_is_counted_once(
    store, begin_again, counted_before, batch
):
    agent = talk(store, at=timezone.now() - timedelta(hours=1))
    if counted_before:
        usage.roll_up(until=soon(), batch=batch)
    for _ in range(2):
        begin_again(store, agent)
        store.append(agent, {"role": "user", "content": []})
        usage.roll_up(until=soon(), batch=batch)

    assert SessionMessage.objects.filter(message_id=0, source=None).count() == 3

    def sessions() -> int:
        return sum(row.sessions for row in UsageRollup.objects.filter(dimension="agent"))

    assert sessions() == 1
    usage.rebuild(until=soon(), batch=batch)
    assert sessions() == 1


def test_a_fork_with_another_first_message_is_no_conversation_that_its_agent_began(store):
    forked = talk(store)
    rewind_all(store, forked)
    store.append(forked, {"role": "user", "content": []})
    fork = store.sessions.fork(store.get("talk"))
    (agent,) = store.agents.list(fork)
    rewind_all(store, agent)
    store.append(agent, {"role": "user", "content": []})

    assert usage.roll_up(until=soon()).messages == 7

    assert UsageRollup.objects.get(dimension="agent", sessions__gt=0).sessions == 1


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_batches_that_end_between_messages_and_copies_count_each_once(store, batch):
    for number in range(3):
        # With the same times, so that the messages of several conversations are mixed.
        agent = talk(store, f"talk {number}")
        if number < 2:
            only_copies_are_left(store, agent)

    assert usage.roll_up(batch=batch).messages == 15
    assert counted() == each(15, 3)


def test_a_message_that_was_counted_is_not_counted_again_as_a_copy(store):
    agent = talk(store)
    # Its copies have a later key, so that the cursor is between them.
    first = SessionMessage.objects.filter(agent=agent.id).earliest("id")
    between = first.created_at + timedelta(milliseconds=1)
    SessionMessage.objects.filter(pk=first.pk).update(created_at=between + timedelta(seconds=1))
    assert usage.roll_up(until=between).messages == 1
    only_copies_are_left(store, agent)

    assert SessionMessage.objects.filter(source=first.pk, id__gt=first.pk).count() == 3
    assert usage.roll_up().messages == 4
    assert usage.roll_up(until=soon()).messages == 0
    assert counted() == each(5, 1)


def test_a_message_whose_original_was_deleted_before_its_turn_is_counted_in_its_turn(store):
    agent = talk(store)
    first = SessionMessage.objects.filter(agent=agent.id).earliest("id")
    # Its copies have an earlier key, which the roll-up passes without counting them.
    earlier = first.created_at - timedelta(seconds=2)
    SessionMessage.objects.filter(pk=first.pk).update(created_at=earlier)
    only_copies_are_left(store, agent)

    assert usage.roll_up(until=first.created_at - timedelta(seconds=1)).messages == 0
    assert usage.roll_up().messages == 5
    assert counted() == each(5, 1)


def test_a_copy_that_was_counted_is_not_counted_again_after_other_deletions(store):
    agent = talk(store)
    only_copies_are_left(store, agent)
    assert usage.roll_up().messages == 5
    for branch in store.branches.list(agent)[1:]:
        store.branches.create(agent)
        store.branches.delete(agent, branch.number)

    assert usage.roll_up(until=soon()).messages == 0
    assert counted() == each(5, 1)


def test_a_roll_up_continues_after_a_copy_that_was_counted_last(store):
    agent = talk(store)
    last = SessionMessage.objects.latest("id").pk
    copy = store.branches.create(agent)
    store.branches.delete(agent, store.branches.switch(agent, copy.number).number)
    assert not SessionMessage.objects.filter(source=None).exists()

    assert usage.roll_up().messages == 5
    assert UsageCursor.objects.get().message == last
    assert usage.roll_up().messages == 0
    assert counted() == each(5, 1)


def test_a_message_that_is_left_in_forks_only_is_counted_once(store):
    agent = talk(store)
    only_copies_are_left(store, agent)
    session = store.get("talk")
    forks = [store.sessions.fork(session) for _ in range(2)]
    assert usage.rebuild(until=soon()).messages == 5

    Session.objects.get(pk=session.id).delete()
    assert SessionMessage.objects.filter(session__in=[fork.id for fork in forks]).count() == 10
    assert usage.roll_up(until=soon()).messages == 0
    assert usage.rebuild(until=soon()).messages == 5
    assert counted() == each(5, 1)


def test_an_original_that_is_deleted_during_a_batch_is_counted_once(store, monkeypatch):
    agent = talk(store)
    read_originals = rollups._originals

    def read_and_delete(*arguments: Any) -> Any:
        found = read_originals(*arguments)
        if not SessionMessage.objects.exclude(source=None).exists():
            only_copies_are_left(store, agent)
        return found

    monkeypatch.setattr(rollups, "_originals", read_and_delete)

    assert usage.roll_up().messages == 5
    assert counted() == each(5, 1)


def test_copies_are_read_in_a_range_of_keys(store):
    only_copies_are_left(store, talk(store))
    usage.roll_up()
    with CaptureQueriesContext(connection) as captured:
        usage.roll_up()

    (of_copies,) = [query["sql"] for query in captured if "ROW_NUMBER" in query["sql"]]
    table = connection.ops.quote_name(SessionMessage._meta.db_table)
    for operator in ("<", ">"):
        assert f"{table}.{connection.ops.quote_name('id')} {operator} " in of_copies


def test_the_first_of_several_copies_is_of_the_oldest_session_and_the_main_branch(store):
    agent = talk(store)
    store.sessions.fork(store.get("talk"))
    only_copies_are_left(store, agent)
    rows = SessionMessage.objects.all()

    found = without_original(rows, rows).values_list("agent_id", "branch", "message_id")
    assert sorted(found) == [(agent.id, 0, 0), (agent.id, 0, 1)]
    assert one_row_each(rows.filter(session=agent.session)).count() == 5
    forked = rows.exclude(session=agent.session)
    assert one_row_each(forked).count() == forked.count() == 5


@pytest.mark.parametrize("restart", ["clear", "pop", "compaction"])
def test_a_conversation_that_starts_again_is_counted_once(store, restart):
    agent = store.agents.open(store.open("talk"), "a", dialect="openai")
    store.append(agent, {"role": "user", "content": "a"})
    usage.roll_up(until=soon())

    if restart == "clear":
        store.clear(agent)
    elif restart == "pop":
        store.pop(agent)
    elif restart == "compaction":
        replaced = [store.messages.list(agent)[0].id]
        epoch = store.get("talk").redaction_epoch
        store.branches.compact(
            agent,
            [{"role": "user", "content": "c"}],
            replaced,
            epoch=epoch,
            keep_history=False,
        )
    if restart != "compaction":
        store.append(agent, {"role": "user", "content": "b"})
    usage.roll_up(until=soon())

    [figures] = usage.top("agent", days=1)
    assert (figures.key, figures.sessions, figures.messages) == ("a", 1, 2)

    usage.rebuild(until=soon())

    [figures] = usage.top("agent", days=1)
    assert (figures.key, figures.sessions, figures.messages) == ("a", 1, 1)


def test_what_was_removed_before_it_was_counted_leaves_the_conversation_to_be_counted(store):
    agent = store.agents.open(store.open("talk"), "a", dialect="openai")
    store.append(agent, {"role": "user", "content": "a"})
    store.clear(agent)
    store.append(agent, {"role": "user", "content": "b"})
    usage.roll_up(until=soon())

    [figures] = usage.top("agent", days=1)
    assert (figures.sessions, figures.messages) == (1, 1)
