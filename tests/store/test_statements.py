"""How many statements each piece of work takes: round trips decide how fast it is."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from django_agent_sessions.values.records import AgentState

pytestmark = pytest.mark.django_db(transaction=True)


def user(text: str) -> dict:
    return {"role": "user", "content": text}


@pytest.fixture(params=["autocommit", "atomic"])
def context(request):
    """Both ways to call the store; in a transaction no statement may be added but a savepoint."""
    with transaction.atomic() if request.param == "atomic" else nullcontext():
        yield request.param


@pytest.fixture
def statements(context):
    """Counts the statements of a call, without what only a transaction needs.

    That is its begin, its end and its savepoints, and on a server the lock that it takes first on
    the session's row. SQLite's log is emptied after a deletion, which asks no server.
    """

    def count(function, *arguments, **options) -> int:
        with CaptureQueriesContext(connection) as captured:
            function(*arguments, **options)
        told = [query["sql"] for query in captured.captured_queries]
        locks = []
        if context == "atomic" and connection.vendor != "sqlite":
            locks = [
                sql for sql in told if sql.endswith(("LIMIT 1 FOR UPDATE", "FOR NO KEY UPDATE"))
            ]
            assert len(locks) <= 1
        ends = [
            sql
            for sql in told
            if sql.startswith(("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "PRAGMA"))
        ]
        return len(told) - len(locks) - len(ends)

    return count


def counted(context: str) -> int:
    """Statements of an append that counts too. They are one commit in any case."""
    if connection.vendor == "postgresql":
        return 1
    # Outside of a caller's transaction MariaDB's lock is not left out.
    return 3 if connection.vendor == "mysql" and context == "autocommit" else 2


def test_appending_takes_one_statement_and_counting_another_in_one_commit(
    store, session, agent, statements, context
):
    assert statements(store.append, agent, user("a"), count=False) == 1
    assert statements(store.append, agent, user("b")) == counted(context)
    assert store.sessions.usage(session.session_id).messages == 1
    assert statements(store.append, agent, user("c"), expected=2, epoch=0, count=False) == 1


@pytest.mark.parametrize("length", [2, 200])
def test_a_batch_takes_as_many_statements_as_one_message(store, agent, statements, context, length):
    batch = [user("a")] * length
    # SQLite's statements are no round trips, and one for each row is compiled faster.
    others = int(connection.vendor == "sqlite")
    assert statements(store.append_many, agent, batch, count=False) == 1 + others
    assert statements(store.append_many, agent, batch) == counted(context) + others
    assert statements(store.append_many, agent, []) == 0


def test_reading_takes_one_statement(store, agent, statements):
    store.append_many(agent, [user("a")] * 30)

    assert statements(store.payloads, agent) == 1
    assert statements(store.payloads, agent, latest=20) == 1
    assert statements(store.messages.list, agent, limit=10, offset=10) == 1
    assert statements(store.messages.latest, agent, 20) == 1
    assert statements(store.messages.restore, agent) == 1
    assert statements(store.messages.find, agent, 3) == 1


def test_popping_takes_one_statement_and_three_for_what_is_counted(store, agent, statements):
    store.append(agent, user("a"))

    # The counters, whether another branch has a copy, and the key that the agent remembers.
    assert statements(store.pop, agent) == 4
    assert statements(store.pop, agent) == 2  # That there is none is asked again.


def test_opening_what_exists_takes_one_statement(store, session, agent, statements):
    assert statements(store.open, "session-1") == 1
    assert statements(store.agents.open, session) == 1
    assert statements(store.open, "new") == 2
    assert statements(store.agents.open, session, "new") == 2


def test_states_are_written_in_one_statement(store, session, agent, statements):
    store.multi_agents.create(session, "graph", {})

    assert statements(store.agents.update, agent, AgentState(state={"a": 1})) == 1
    assert statements(store.agents.update, agent, AgentState(), epoch=0) == 1
    assert statements(store.multi_agents.update, session, "graph", {"a": 1}) == 1
    assert statements(store.multi_agents.find, session, "graph") == 1


def test_lists_and_usage_take_one_statement_however_long_they_are(store, agent, statements):
    for number in range(10):
        store.open(f"s-{number}")
    store.append_many(agent, [user("a")] * 30)

    page = store.sessions.list(limit=5)
    assert statements(store.sessions.list, limit=5, after=page[-1]) == 1
    assert statements(store.sessions.usage, "session-1") == 1


def test_a_redaction_takes_as_many_statements_in_a_long_conversation(store, agent, statements):
    store.append(agent, user("a"))
    short = statements(store.messages.redact, agent, 0, user("[gone]"))
    store.append_many(agent, [user("a")] * 400)
    long = statements(store.messages.redact, agent, 200, user("[gone]"))

    # Two of them look whether its binaries are used any more, two for copies and other forms of it.
    assert long == short <= 17


def test_clearing_and_deleting_take_as_many_statements_in_a_long_conversation(store, statements):
    found = []
    for session_id, length in (("short", 1), ("long", 400)):
        agent = store.agents.open(store.open(session_id))
        store.append_many(agent, [user("a")] * length)
        cleared = statements(store.clear, agent)
        store.append_many(agent, [user("a")] * length)
        found.append((cleared, statements(store.delete, session_id)))

    assert found[0] == found[1]
    # Two of them remember the keys of the last messages.
    assert found[0][0] <= 8
    # Three of them are about large binaries, nine about branches, snapshots and their like, and
    # five about notes, labels, the review, participants and links.
    assert found[0][1] <= 28
