"""The run that code belongs to, and what is called after a write is committed."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from django.db import transaction

from django_agent_sessions.db import write_hooks
from django_agent_sessions.models import AuditEvent
from django_agent_sessions.values.run_context import (
    RunContext,
    SessionWrite,
    current_run,
    run_context,
)

pytestmark = pytest.mark.django_db(transaction=True)

RUN, OTHER = UUID(int=1), UUID(int=2)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[SessionWrite]:
    seen: list[SessionWrite] = []
    monkeypatch.setattr(write_hooks, "receivers", [lambda using: seen.append])
    return seen


def test_a_block_inherits_what_it_does_not_set():
    assert current_run() == RunContext()
    with run_context(RUN, "eve"):
        with run_context(actor="ada"):
            assert current_run() == RunContext(RUN, "ada")
        assert current_run() == RunContext(RUN, "eve")
    assert current_run() == RunContext()


async def test_messages_get_the_run_also_in_threads_of_the_store(store):
    agent = await store.agents.aopen(await store.aopen("s"))
    with run_context(RUN):
        first = await store.aappend(agent, user("a"))
        second = await store.aappend(agent, user("b"), run_id=OTHER)
    third = await store.aappend(agent, user("c"))

    assert [first.run_id, second.run_id, third.run_id] == [RUN, OTHER, None]


def test_a_redaction_is_by_the_actor_of_the_run(store, agent):
    store.append_many(agent, [user("a"), user("b"), user("c")])
    with run_context(actor="support"):
        store.messages.redact(agent, 0, user("[gone]"))
        store.messages.redact(agent, 1, user("[gone]"), actor="eve")
    store.messages.redact(agent, 2, user("[gone]"))

    assert list(AuditEvent.objects.order_by("id").values_list("actor", flat=True)) == [
        "support",
        "eve",
        "guardrail",
    ]


def test_each_kind_of_write_is_told_after_its_commit(store, agent, writes):
    with transaction.atomic(), run_context(RUN):
        store.append(agent, user("a"))
        store.append(agent, user("b"))
        assert writes == []
    assert [(write.kind, write.session, write.run.run_id) for write in writes] == [
        ("append", agent.session, RUN)
    ] * 2
    del writes[:]

    store.messages.update(agent, 0, user("A"))
    store.messages.redact(agent, 0, user("[gone]"))
    store.snapshots.take(agent)
    store.branches.rewind(agent, 0)
    store.pop(agent)
    store.append(agent, user("c"))
    store.clear(agent)
    store.sessions.update(agent.session, title="new")

    kinds = [write.kind for write in writes]
    assert list(dict.fromkeys(kinds)) == ["update", "redact", "branch", "pop", "append", "clear"]


def test_nothing_is_told_of_what_is_rolled_back(store, agent, writes):
    with transaction.atomic():
        store.append(agent, user("a"))
        transaction.set_rollback(True)

    assert writes == []


def test_an_error_of_a_receiver_changes_nothing_for_the_writer(store, agent, monkeypatch):
    def fail(write: SessionWrite) -> None:
        raise RuntimeError

    monkeypatch.setattr(write_hooks, "receivers", [lambda using: fail])

    store.append(agent, user("a"))

    assert store.payloads(agent) == [user("a")]
