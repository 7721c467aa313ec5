"""Branches: what was said on one is never changed by what happens to another."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, transaction
from hypothesis import given

from django_agent_sessions.content.dialects import OPENAI, STRANDS
from django_agent_sessions.exceptions import (
    LegalHoldError,
    SessionConflictError,
    SessionNotFoundError,
)
from django_agent_sessions.governance.legal_hold import hold
from django_agent_sessions.models import Branch, Session, SessionMessage, Snapshot, TurnUsage
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.records import AgentRecord, AgentState

from .branching import OPERATIONS, Model, said, user

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def agent(store: SessionStore) -> AgentRecord:
    made = store.agents.open(store.open("talk"), dialect=STRANDS)
    store.append_many(made, [user(text) for text in "abcdef"])
    return made


def test_a_rewind_keeps_what_was_said_later_as_a_side_branch(store, agent):
    before = {row.pk for row in SessionMessage.objects.all()}
    side = store.branches.rewind(agent, 2)
    store.append(agent, user("other"))

    assert said(store, agent) == ["a", "b", "c", "other"]
    assert said(store, agent, side.number) == list("abcdef")
    assert (side.start, side.length, side.parent) == (3, 6, 0)
    assert [b.name for b in store.branches.list(agent)] == ["main", "branch-1"]
    assert store.branches.common_length(agent, 0, side.number) == 3
    # What was there is still there, under the same key.
    assert before <= {row.pk for row in SessionMessage.objects.all()}
    copies = SessionMessage.objects.exclude(source=None).count()
    assert store.sessions.usage("talk").messages == SessionMessage.objects.count() - copies


def test_a_rewind_to_the_end_changes_nothing(store, agent):
    assert store.branches.rewind(agent, 5) is None
    assert not Snapshot.objects.exists()
    assert Session.objects.get().redaction_epoch == 0


def test_a_rewind_to_nowhere_says_so(store, agent):
    for position in (-2, 6, 100):
        with pytest.raises(SessionNotFoundError):
            store.branches.rewind(agent, position)
    assert said(store, agent) == list("abcdef")


def test_everything_can_be_rewound(store, agent):
    side = store.branches.rewind(agent, -1)

    assert said(store, agent) == []
    assert said(store, agent, side.number) == list("abcdef")


def test_switching_back_and_forth_loses_nothing(store, agent):
    side = store.branches.rewind(agent, 1)
    store.append(agent, user("x"))
    other = store.branches.switch(agent, side.number)
    assert said(store, agent) == list("abcdef")
    assert said(store, agent, other.number) == ["a", "b", "x"]

    store.append(agent, user("g"))
    again = store.branches.switch(agent, other.number)
    assert said(store, agent) == ["a", "b", "x"]
    assert said(store, agent, again.number) == list("abcdefg")


@pytest.mark.parametrize("dialect", [STRANDS, OPENAI])
@pytest.mark.parametrize("way", ["switch", "restore"])
def test_a_branch_that_was_the_main_one_gets_its_name_back(store, dialect, way):
    agent = store.agents.open(store.open("named"), dialect=dialect)
    store.append_many(agent, [user(text) for text in "abc"])
    idea = store.branches.create(agent, name="idea", upto=2)

    former = store.branches.switch(agent, idea.number)
    # What an agent does on the way: a program writes its state, and other branches come and go.
    store.append(agent, user("d"))
    store.agents.update(agent, AgentState(internal_state={"interrupt_state": {}}))
    store.branches.rewind(agent, 1, name="rewound")
    store.branches.delete(agent, store.branches.create(agent, name="gone").number)
    if way == "restore":
        snapshots = store.snapshots.list(agent)
        (left,) = (each for each in snapshots if each.branch == former.number)
        store.snapshots.restore(agent, left.id)
    else:
        store.branches.switch(agent, former.number)

    listed = {branch.name: branch.number for branch in store.branches.list(agent)}
    assert set(listed) == {"main", "idea", "rewound"}
    assert said(store, agent) == list("abc")
    assert said(store, agent, listed["idea"]) == list("ab")


@pytest.mark.parametrize("dialect", [STRANDS, OPENAI])
def test_several_branches_keep_their_names_in_turn(store, dialect):
    agent = store.agents.open(store.open("named"), dialect=dialect)
    store.append(agent, user("a"))
    for name in ("one", "two"):
        store.branches.create(agent, name=name)
    first = store.branches.switch(agent, store.branches.find(agent, "one").number)
    assert (first.name, store.branches.find(agent, "one")) == ("branch-3", None)

    for name, left in (("two", "one"), ("one", "two"), ("branch-3", "one"), ("two", "branch-3")):
        assert store.branches.switch(agent, store.branches.find(agent, name).number).name == left


def store_costs(store: SessionStore, agent: AgentRecord, *turns: int) -> None:
    for turn in turns:
        TurnUsage.objects.create(
            session_id=agent.session, agent_id=agent.id, turn=turn, total_tokens=turn * 10
        )


def costs(store: SessionStore, agent: AgentRecord, number: int = 0) -> dict[int, int]:
    found = store.turns.costs(agent.on_branch(number))
    return {cost.turn: cost.total_tokens for cost in found}


def test_what_common_turns_cost_stays_on_the_main_branch(store, agent):
    store_costs(store, agent, 1, 2, 3, 4, 5, 6)
    side = store.branches.rewind(agent, 1)
    former = store.branches.switch(agent, side.number)

    assert costs(store, agent) == {1: 10, 2: 20, 3: 30, 4: 40, 5: 50, 6: 60}
    assert costs(store, agent, former.number) == {}
    store.branches.delete(agent, former.number)
    assert store.turns.total(agent).turns == 6


def test_what_was_said_on_the_former_main_branch_alone_keeps_its_cost(store, agent):
    store_costs(store, agent, 1, 2, 3)
    side = store.branches.rewind(agent, 1)
    store.append(agent, user("other"))
    store_costs(store, agent, 3)
    TurnUsage.objects.filter(branch=0, turn=3).update(total_tokens=33)

    former = store.branches.switch(agent, side.number)
    assert costs(store, agent) == {1: 10, 2: 20, 3: 30}
    assert costs(store, agent, former.number) == {3: 33}

    again = store.branches.switch(agent, former.number)
    assert costs(store, agent) == {1: 10, 2: 20, 3: 33}
    assert costs(store, agent, again.number) == {3: 30}


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_turn_that_was_cut_keeps_its_cost_with_the_branch_that_continued_it(store, goes_on):
    agent = store.agents.open(store.open("cut"), dialect=STRANDS)
    answer = {"role": "assistant", "content": [{"text": "yes"}]}
    store.append_many(agent, [answer, user("a"), answer, user("b"), answer, answer])
    store_costs(store, agent, 0, 1, 2)
    side = store.branches.rewind(agent, 4)
    if goes_on:
        store.append(agent, answer)

    former = store.branches.switch(agent, side.number)

    expected = {0: 0, 1: 10} if goes_on else {0: 0, 1: 10, 2: 20}
    assert costs(store, agent) == expected
    assert costs(store, agent, former.number) == ({2: 20} if goes_on else {})


def test_branches_with_nothing_in_common_keep_what_they_cost(store, agent):
    side = store.branches.rewind(agent, -1)
    store.append(agent, user("other"))
    store_costs(store, agent, 1)

    former = store.branches.switch(agent, side.number)

    assert costs(store, agent) == {}
    assert costs(store, agent, former.number) == {1: 10}


def test_the_agents_state_goes_back_with_its_conversation(store, agent):
    store.agents.update(agent, AgentState({"mood": "late"}))
    side = store.branches.rewind(agent, 2)
    store.agents.update(agent, AgentState({"mood": "early"}))
    store.snapshots.take(agent)
    store.append(agent, user("x"))
    store.agents.update(agent, AgentState({"mood": "again"}))

    session = store.get("talk")
    store.branches.rewind(agent, 2)
    assert store.agents.find(session, agent.agent_id).data.state == {"mood": "early"}
    store.branches.switch(agent, side.number)
    assert store.agents.find(session, agent.agent_id).data.state == {"mood": "late"}


def test_a_snapshot_brings_back_conversation_and_state(store, agent):
    store.agents.update(agent, AgentState({"n": 1}))
    taken = store.snapshots.take(agent)
    store.append(agent, user("g"))
    store.agents.update(agent, AgentState({"n": 2}))

    store.snapshots.restore(agent, taken.id)

    assert said(store, agent) == list("abcdef")
    assert store.agents.find(store.get("talk"), agent.agent_id).data.state == {"n": 1}
    # And what was left can be restored as well.
    newest = store.snapshots.list(agent)[0]
    store.snapshots.restore(agent, newest.id)
    assert said(store, agent) == list("abcdefg")
    assert store.agents.find(store.get("talk"), agent.agent_id).data.state == {"n": 2}


def test_a_window_follows_a_rewind(store, agent):
    window = {"kept": [[1, 2]], "tail": 3}
    manager = {"removed_message_count": 2, "summary_message": user("sum")}
    store.agents.update(agent, AgentState(conversation_manager_state=manager, window=window))
    side = store.branches.rewind(agent, 3)

    data = store.agents.find(store.get("talk"), agent.agent_id).data
    assert data.window is None
    assert data.conversation_manager_state == {"removed_message_count": 0, "summary_message": None}

    store.branches.switch(agent, side.number)
    data = store.agents.find(store.get("talk"), agent.agent_id).data
    assert data.window == window
    assert data.conversation_manager_state == manager


def test_a_branch_is_made_of_any_other_and_deleted_alone(store, agent):
    made = store.branches.create(agent, name="idea", upto=2)
    store.append(agent.on_branch(made.number), user("y"))
    second = store.branches.create(agent, source=made.number)

    assert said(store, agent, made.number) == ["a", "b", "y"]
    assert said(store, agent, second.number) == ["a", "b", "y"]
    assert store.branches.find(agent, "idea").length == 3
    assert store.branches.delete(agent, made.number) == 3
    assert said(store, agent) == list("abcdef")
    assert said(store, agent, second.number) == ["a", "b", "y"]
    assert store.branches.find(agent, "idea") is None
    # The copies of "a" and "b" are not counted.
    assert store.sessions.usage("talk").messages == SessionMessage.objects.count() - 2 == 7


@pytest.mark.parametrize("name", ["main", "idea"])
def test_two_branches_have_no_name_in_common(store, agent, name):
    store.branches.create(agent, name="idea")
    with pytest.raises(SessionConflictError):
        store.branches.create(agent, name=name)
    assert Branch.objects.count() == 1


@pytest.mark.parametrize("way", ["rewind", "set_aside", "switch", "create", "restore"])
def test_a_branch_without_a_name_gets_one_that_no_other_has(store, agent, way):
    snapshot = store.snapshots.take(agent)
    store.append(agent, user("g"))
    store.branches.create(agent, name="branch-3", upto=2)
    other = store.branches.create(agent, name="other", upto=2)
    {
        "rewind": lambda: store.branches.rewind(agent, to=1),
        "set_aside": lambda: store.branches.set_aside(agent, 1),
        "switch": lambda: store.branches.switch(agent, other.number),
        "create": lambda: store.branches.create(agent),
        "restore": lambda: store.snapshots.restore(agent, snapshot.id),
    }[way]()

    listed = {branch.number: branch.name for branch in store.branches.list(agent)}
    assert (listed[1], listed[3]) == ("branch-3", "branch-3-")


def test_the_main_branch_and_those_that_are_not_there_cannot_be_deleted(store, agent):
    for number in (0, 7):
        with pytest.raises(SessionNotFoundError):
            store.branches.delete(agent, number)
        with pytest.raises(SessionNotFoundError):
            store.branches.switch(agent, number)


def test_a_hold_keeps_branches(store, agent):
    made = store.branches.create(agent)
    hold(Session.objects.get().pk, reason="a lawsuit", actor="legal")
    with pytest.raises(LegalHoldError):
        store.branches.delete(agent, made.number)
    # Nothing is lost by these.
    side = store.branches.rewind(agent, 1)
    store.branches.switch(agent, side.number)
    assert said(store, agent) == list("abcdef")


def test_copies_say_what_they_are_copies_of(store, agent):
    originals = {row.message_id: row.pk for row in SessionMessage.objects.all()}
    first = store.branches.create(agent, upto=3)
    second = store.branches.create(agent, source=first.number)
    for number in (first.number, second.number):
        copies = SessionMessage.objects.filter(branch=number)
        assert {row.message_id: row.source for row in copies} == {
            position: originals[position] for position in range(3)
        }
    assert SessionMessage.objects.filter(source=None, branch=0).count() == 6


def test_a_copy_of_a_redacted_message_holds_no_original(store, agent):
    store.messages.redact(agent, 1, user("[gone]"))
    made = store.branches.create(agent)
    copied = SessionMessage.objects.get(branch=made.number, message_id=1)
    assert copied.message == copied.redact_message == user("[gone]")
    assert copied.redacted_at is not None


@given(ops=OPERATIONS)
def test_any_sequence_leaves_every_branch_as_a_simple_model_has_it(ops):
    Session.objects.all().delete()
    model = Model(SessionStore(), STRANDS)
    for count, (kind, which, where) in enumerate(ops):
        model.do(f"m{count}", kind, which, where)
        model.check()


@pytest.mark.skipif("connection.vendor != 'mysql'", reason="others read what they lock")
@pytest.mark.parametrize("way", ["switch", "restore"])
def test_a_switch_in_an_older_view_of_the_database_is_told_to_event_streams(store, agent, way):
    snapshot = store.snapshots.take(agent)
    side = store.branches.rewind(agent, 3)
    assert side is not None
    with connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    with transaction.atomic():
        # MariaDB reads the rows as of now, until the transaction ends, and locks later ones.
        assert Session.objects.get().redaction_epoch == 1
        with ThreadPoolExecutor(1) as pool:
            pool.submit(change_title_often, agent).result()
        if way == "switch":
            store.branches.switch(agent, side.number)
        else:
            store.snapshots.restore(agent, snapshot.id)

    changes = SessionMessage.objects.filter(agent=agent.id, branch=0).values_list("change")
    seen = Session.objects.get().header_change
    assert [change for (change,) in changes if change <= seen] == []


def change_title_often(agent: AgentRecord) -> None:
    try:
        for number in range(5):
            SessionStore().sessions.update(agent.session, title=f"title {number}")
    finally:
        connection.close()
