"""Somebody redacts a conversation that a run in another process has in memory."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connections

from django_agent_sessions.adapters.openai_agents import DjangoSession
from django_agent_sessions.db import bridge
from django_agent_sessions.governance.redaction import Find, WholeMessage, aredact, redact
from django_agent_sessions.models import SessionMessage
from django_agent_sessions.store import SessionStore
from django_agent_sessions.testing import columns_containing, files_containing
from tests.processes import go, outputs, ready, start

from .held import SECRET
from .team import stored, texts, user

pytestmark = pytest.mark.django_db(transaction=True)

AFTER = {
    "run": [
        "My code is [REDACTED]",
        "I note [REDACTED].",
        "1 + 2?",
        "call add",
        "output 3",
        "Three.",
    ],
    "tool": [
        "Look up [REDACTED]",
        "call look_up",
        "output found it",
        "Done.",
        "Thanks",
        "You said: Thanks",
    ],
    "compaction": ["Summary of: My code is [REDACTED]", "Summary of: keep this"],
    "pop": ["first", "My code is [REDACTED]"],
}


@pytest.mark.process
@pytest.mark.parametrize("work", list(AFTER))
def test_nothing_that_is_added_brings_it_back(work):
    connections.close_all()
    held = [start("tests.adapters.openai_agents.held", work)]
    ready(held)
    assert columns_containing("plantedsecret") != []

    redact(SessionStore().get("s").id, Find(SECRET), reason="A request")
    assert columns_containing("plantedsecret") == []
    connections.close_all()
    go(held)
    (said,) = outputs(held)

    assert columns_containing("plantedsecret") == []
    assert files_containing("plantedsecret") == []
    assert texts(stored()) == AFTER[work]
    assert "plantedsecret" not in said[-1]
    assert SessionMessage.objects.filter(text__contains="[REDACTED]").exists()


CALL: Any = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "pay",
    "arguments": '{"pin": "plantedsecret"}',
    "status": "completed",
}


@pytest.mark.parametrize("way", ["whole message", "item", "short words"])
async def test_a_history_that_is_replaced_from_memory_stays_redacted(way):
    session = DjangoSession("s")
    secret = user("1234") if way == "short words" else user("plantedsecret")
    await session.add_items([CALL if way == "whole message" else secret, user("keep this")])
    items = await session.get_items()

    await bridge.arun_orm(redact_first, way)
    # As a compaction does.
    await session.clear_session()
    await session.add_items(items)

    left = await bridge.arun_orm(stored)
    assert len(left) == 2
    assert left[0] != items[0]
    assert left[1] == items[1]
    assert await bridge.arun_orm(columns_containing, "plantedsecret") == []


def redact_first(way: str) -> None:
    first = SessionMessage.objects.order_by("message_id")[0]
    if way == "item":
        store = SessionStore()
        agent = store.agents.list(store.get("s"))[0]
        store.messages.redact(agent, 0, user("[removed]"))
    else:
        redact(first.session_id, WholeMessage(first.pk), reason="A request")


async def test_what_another_process_added_is_popped_without_mixing_up_what_is_known():
    session, other = DjangoSession("s"), DjangoSession("s")
    await session.add_items([user("My code is plantedsecret")])
    await other.add_items([user("from elsewhere")])

    assert await session.pop_item() == user("from elsewhere")
    items = await session.get_items()
    found = await bridge.arun_orm(SessionStore().get, "s")
    await aredact(found.id, Find("plantedsecret"), reason="A request")
    await session.clear_session()
    await session.add_items(items)

    assert await bridge.arun_orm(columns_containing, "plantedsecret") == []


async def test_no_append_brings_back_what_was_redacted_and_then_taken_back_in_time():
    session = DjangoSession("s")
    await session.add_items([user("hello")])
    await session.add_items([user(f"My code is {SECRET}")])

    def redact_and_rewind() -> None:
        store = SessionStore()
        found = store.get("s")
        redact(found.id, Find(SECRET), reason="A request")
        store.branches.rewind(store.agents.open(found, "default"), 0)

    await bridge.arun_orm(redact_and_rewind)
    await session.add_items([user("What else?"), user(f"I said {SECRET}")])

    assert await bridge.arun_orm(lambda: columns_containing(SECRET)) == []
    assert await session.get_items() == [
        user("hello"),
        user("What else?"),
        user("I said [REDACTED]"),
    ]
