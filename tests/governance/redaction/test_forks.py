"""A redaction reaches the forks of a session."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection

from django_agent_sessions.exceptions import LegalHoldError
from django_agent_sessions.governance.legal_hold import hold
from django_agent_sessions.governance.redaction import Find, aredact, descendants_of, redact
from django_agent_sessions.models import (
    AuditEvent,
    Branch,
    Session,
    SessionMessage,
    Snapshot,
    querysets,
)
from django_agent_sessions.store import SessionStore
from tests.docs.test_examples import example

from .planting import SECRET
from .timelines import SCOPES, TABLES, epoch_of, found_in_database, plant, rows_of, spot, user

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def store() -> SessionStore:
    return SessionStore()


def forked(store: Any) -> tuple[Any, Any, list[Any]]:
    session, agent = plant(store, SECRET)
    child = store.sessions.fork(session, session_id="child")
    at = SessionMessage.objects.get(session=child.id, message_id=2).pk
    grandchild = store.sessions.fork(child, at=at, session_id="grandchild")
    return session, agent, [child, grandchild]


def test_forks_are_redacted_with_the_session_when_that_is_asked_for(store):
    session, _, forks = forked(store)
    assert descendants_of(session.id) == [fork.id for fork in forks]

    redact(session.id, Find(SECRET), reason="r")
    assert found_in_database(SECRET) != []
    done = redact(session.id, Find(SECRET), reason=f"not {SECRET}", actor="eve", descendants=True)

    assert found_in_database(SECRET) == []
    assert (done.hits, [fork.session for fork in done.forks]) == ([], [f.id for f in forks])
    events = AuditEvent.objects.filter(session__in=[fork.id for fork in forks])
    assert {(event.reason, event.actor) for event in events} == {("not [REDACTED]", "eve")}
    assert {event.details["forked_from"] for event in events} == {str(session.id)}
    assert [epoch_of(fork.id) for fork in forks] == [1, 1]


@pytest.mark.parametrize("kind", SCOPES)
def test_a_message_is_redacted_in_forks(store, kind):
    session = store.open("s")
    agent = store.agents.open(session, dialect="strands")
    store.append_many(agent, [user("a"), user(SECRET), user("c")])
    child = store.sessions.fork(session)
    grandchild = store.sessions.fork(child)
    key = spot(agent, 0, 1).pk

    done = redact(session.id, SCOPES[kind](key), reason="r", descendants=True)

    assert found_in_database(SECRET) == []
    assert [found.messages for found in done.sessions] == [1, 1, 1]
    assert [found.session for found in done.sessions] == [session.id, child.id, grandchild.id]


def test_a_fork_redacts_its_own_forks_and_not_what_it_came_from(store):
    _, agent, (child, grandchild) = forked(store)
    theirs = rows_of(Snapshot, Branch), list(store.payloads(agent))

    done = redact(child.id, Find(SECRET), reason="r", descendants=True)

    assert [found.session for found in done.sessions] == [child.id, grandchild.id]
    assert (rows_of(Snapshot, Branch), list(store.payloads(agent))) == theirs


def test_forks_are_still_found_after_a_redaction_of_what_names_them(store):
    session, _, (child, grandchild) = forked(store)

    redact(session.id, Find(str(session.id)), Find("line"), reason="r", descendants=True)

    assert descendants_of(session.id) == [child.id, grandchild.id]


def test_a_hold_on_a_fork_refuses_all_of_it(store):
    session, _, (_, grandchild) = forked(store)
    hold(grandchild.id, reason="court")
    before = rows_of(*TABLES)

    with pytest.raises(LegalHoldError, match="grandchild"):
        redact(session.id, Find(SECRET), reason="r", descendants=True)

    assert rows_of(*TABLES) == before


def test_the_async_twin_reaches_forks(store):
    session, _, _ = forked(store)

    asyncio.run(aredact(session.id, Find(SECRET), reason="r", descendants=True))

    assert found_in_database(SECRET) == []


def test_the_command_reaches_forks(store, capsys):
    _, _, (child, _) = forked(store)
    options = ("--find", SECRET, "--descendants")

    call_command("agent_sessions_redact", "s", *options, "--dry-run")
    listed = capsys.readouterr().out
    call_command("agent_sessions_redact", "s", *options, "--reason", "r")
    done = capsys.readouterr().out

    assert found_in_database(SECRET) == []
    assert f"fork {child.id}" in listed
    assert SECRET not in listed + done
    assert listed.replace("would be redacted", "redacted") == done


def test_the_example_of_forks_reaches_them(store, ada):
    session, _, forks = forked(store)

    found = example("how-to/redaction.md", "forget_everywhere")(session, SECRET, ada)

    assert set(found) == {session.id, *(fork.id for fork in forks)}
    assert found_in_database(SECRET) == []


@pytest.mark.parametrize("dry_run", [True, False])
def test_forks_are_read_in_batches_and_none_is_left_out(store, monkeypatch, dry_run):
    session = store.open("s", title=SECRET)
    forks = [store.sessions.fork(session).id for _ in range(7)]
    Session.objects.filter(pk=forks[4]).update(namespace="elsewhere")
    within = Session.objects.filter(namespace="")
    monkeypatch.setattr(querysets, "_MAX_KEYS", 2)
    named: list[int] = []

    def count_keys(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        given = {str(value).replace("-", "") for value in params or ()}
        named.append(len(given & {key.hex for key in forks}))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(count_keys):
        done = redact(
            session.id, Find(SECRET), reason="r", descendants=True, within=within, dry_run=dry_run
        )

    assert [fork.session for fork in done.forks] == [*forks[:4], *forks[5:]]
    assert done.unreached == [forks[4]]
    assert all(fork.total == 1 for fork in done.sessions)
    titles = [row.title for row in Session.objects.all()]
    assert titles.count(SECRET) == (8 if dry_run else 1)
    assert max(named) == 2
