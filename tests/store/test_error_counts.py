"""A message that reports an error is counted as one in its session, whatever becomes of it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command

from django_agent_sessions.governance import legal_hold
from django_agent_sessions.governance.redaction import WholeMessage, redact
from django_agent_sessions.integrity import Check, Kind
from django_agent_sessions.interchange.jsonl_export import export_sessions
from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.records import AgentRecord, Append, NewMessage

pytestmark = pytest.mark.django_db(transaction=True)


def result(status: str, text: str = "x") -> dict[str, Any]:
    content = [{"toolResult": {"toolUseId": "t", "status": status, "content": [{"text": text}]}}]
    return {"role": "user", "content": content}


def said(text: str = "Hello") -> dict[str, Any]:
    return {"role": "user", "content": [{"text": text}]}


@pytest.fixture
def store() -> SessionStore:
    return SessionStore()


@pytest.fixture
def agent(store) -> AgentRecord:
    """An agent whose tool failed at position 1."""
    opened: AgentRecord = store.agents.open(store.open("s"), dialect="strands")
    store.append_many(opened, [said(), result("error"), result("success")])
    return opened


def errors(session_id: str = "s") -> int:
    """Return what is counted, which is what the check counts and the list finds."""
    session = Session.objects.get(session_id=session_id)
    with_errors = Session.objects.with_errors().filter(session_id=session_id)
    assert session.has_errors is with_errors.exists() is (session.error_count > 0)
    found = [result.finding for result in Check(grace=timedelta(0)).run()]
    assert [each for each in found if each.kind in (Kind.COUNTERS, Kind.NEUTRAL)] == []
    return session.error_count


def test_an_append_counts_it(store, agent):
    assert errors() == 1
    store.append(agent, result("success"))
    assert errors() == 1
    assert store.append(agent, result("error")).usage.errors == 1
    assert errors() == 2
    assert [found.usage.errors for found in store.messages.list(agent)] == [0, 1, 0, 0, 1]
    assert store.get("s").usage.errors == 2


def test_a_session_without_an_error_has_none(store):
    agent = store.agents.open(store.open("s"), dialect="strands")
    store.append_many(agent, [said(), result("success")])
    assert errors() == 0


def test_a_batch_and_appends_of_a_group_count_them(store, agent):
    other = store.agents.open(store.open("other"), dialect="strands")
    batch = [Append(agent, [result("error")]), Append(other, [said(), result("error")])]
    store.write_batch(batch)
    assert (errors(), errors("other")) == (2, 1)

    async def together() -> None:
        await asyncio.gather(
            store.aappend(agent, result("error")),
            store.aappend_many(other, [result("error"), result("error")]),
        )

    asyncio.run(together())
    assert (errors(), errors("other")) == (3, 3)


def test_an_error_that_is_the_first_message_is_counted(store):
    store.sessions.start("new", "agent", [result("error")], dialect="strands")
    assert errors("new") == 1


def test_a_pop_and_a_clear_subtract_it(store, agent):
    store.pop(agent)
    assert errors() == 1
    store.pop(agent)
    assert errors() == 0
    store.append_many(agent, [result("error"), result("error")])
    assert errors() == 2
    store.clear(agent)
    assert errors() == 0


def test_copies_on_branches_count_once(store, agent):
    branch = store.branches.rewind(agent, 1)
    assert branch is not None
    assert SessionMessage.objects.filter(has_error=True).count() == 2
    assert errors() == 1
    store.pop(agent)
    assert errors() == 1
    store.branches.delete(agent, branch.number)
    assert errors() == 0


def test_clearing_a_branch_keeps_the_errors_of_others(store, agent):
    store.branches.rewind(agent, 1)
    store.clear(agent)
    assert errors() == 1
    store.clear(agent.on_branch(1))
    assert errors() == 0


def test_a_fork_and_an_import_have_it(store, agent, tmp_path):
    store.sessions.fork(store.get("s"), session_id="fork")
    first = SessionMessage.objects.get(session__session_id="s", message_id=0)
    store.sessions.fork(store.get("s"), session_id="short", at=first.pk)
    assert (errors("fork"), errors("short")) == (1, 0)

    lines = tmp_path / "sessions.jsonl"
    lines.write_text("".join(export_sessions(Session.objects.filter(session_id="s"))))
    Session.objects.all().delete()
    call_command("agent_sessions_import", "jsonl", str(lines), verbosity=0)
    assert errors() == 1


@pytest.mark.parametrize(
    ("position", "new", "left", "after"),
    [
        (0, result("error"), 2, 2),
        (1, result("error", "y"), 1, 1),
        (1, result("success"), 0, 1),
        (2, said(), 1, 2),
    ],
)
@pytest.mark.parametrize("held", [False, True])
def test_an_update_counts_what_it_becomes(store, agent, position, new, left, after, held):
    if held:
        legal_hold.hold(agent.session, reason="case 1")
    store.messages.update(agent, position, new)
    assert errors() == left
    store.messages.update(agent, position, result("error", "again"))
    assert errors() == after


def test_an_update_of_a_copy_counts_a_message_once(store, agent):
    store.branches.rewind(agent, 1)
    store.messages.update(agent, 1, result("success"))
    assert errors() == 1
    store.messages.update(agent.on_branch(1), 1, result("success"))
    assert errors() == 0


def test_a_redacted_message_still_counts(store, agent, tmp_path):
    message = SessionMessage.objects.get(message_id=1)
    redact(agent.session, WholeMessage(message.pk), reason="a ticket")
    assert errors() == 1
    # Nothing in the payload tells it any more.
    store.messages.redact(agent, 1, said("[gone]"))
    assert errors() == 1

    lines = tmp_path / "sessions.jsonl"
    lines.write_text("".join(export_sessions(Session.objects.all())))
    Session.objects.all().delete()
    call_command("agent_sessions_import", "jsonl", str(lines), verbosity=0)
    assert errors() == 1


def test_a_written_again_message_counts_once(store, agent):
    [new] = store.append_many(agent, [result("error")])
    assert errors() == 2
    store.append_many(agent, [NewMessage(result("success"), id=new.id)], again=True)
    assert errors() == 1


def test_the_check_counts_messages_of_earlier_releases(store, agent):
    SessionMessage.objects.update(has_error=False)
    Session.objects.update(error_count=0, has_errors=False)
    mended = [found.finding for found in Check(mend=True, grace=timedelta(0)).run() if found.mended]
    assert [finding.kind for finding in mended] == [Kind.NEUTRAL, Kind.COUNTERS]
    assert errors() == 1


@pytest.mark.parametrize("branch_fails", [True, False])
def test_a_copy_that_differs_is_popped(store, agent, branch_fails):
    store.clear(agent)
    store.append(agent, said() if branch_fails else result("error"))
    side = agent.on_branch(store.branches.create(agent).number)
    changed, popped = (side, agent) if branch_fails else (agent, side)
    store.messages.update(changed, 0, result("error") if branch_fails else said())
    assert errors() == 1

    store.pop(popped)

    assert errors() == int(branch_fails)
    store.pop(changed)
    assert errors() == 0
