"""Somebody redacts a conversation that a run in another process has in memory."""

from __future__ import annotations

from typing import Any

import pytest
from agents import Agent, RunConfig, Runner, function_tool

from django_agent_sessions.adapters.openai_agents import AdvancedDjangoSession, DjangoSession
from django_agent_sessions.content import masking
from django_agent_sessions.content.dialects import OPENAI
from django_agent_sessions.db import bridge
from django_agent_sessions.governance.redaction import Find, WholeMessage, aredact, redact
from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.store import SessionStore
from django_agent_sessions.testing import columns_containing, files_containing
from tests.adapters.processes import hold, let_go
from tests.texts import with_text

from .held import SECRET
from .scripted import ScriptedModel, call
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
    "pop": ["first", "My code is [REDACTED]"],
}


@pytest.mark.process
@pytest.mark.parametrize("work", list(AFTER))
def test_nothing_that_is_added_brings_it_back(work):
    held = hold("tests.adapters.openai_agents.held", work)
    assert columns_containing("plantedsecret") != []

    redact(SessionStore().get("s").id, Find(SECRET), reason="A request")
    assert columns_containing("plantedsecret") == []
    said = let_go(held)

    assert columns_containing("plantedsecret") == []
    assert files_containing("plantedsecret") == []
    assert texts(stored()) == AFTER[work]
    assert "plantedsecret" not in said[-1]
    assert with_text("[REDACTED]")


CALL: Any = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "pay",
    "arguments": '{"pin": "plantedsecret"}',
    "status": "completed",
}


async def test_a_call_that_was_redacted_as_a_whole_stays_redacted_in_a_history_from_memory():
    session = DjangoSession("s")
    await session.add_items([CALL, user("keep this")])
    items = await session.get_items()
    (message,) = await bridge.arun_orm(lambda: list(SessionMessage.objects.filter(message_id=0)))

    await aredact(message.session_id, WholeMessage(message.pk), reason="A request")
    redacted = await bridge.arun_orm(stored)
    # As a compaction does.
    await session.clear_session()
    await session.add_items(items)

    assert await bridge.arun_orm(stored) == redacted == [redacted[0], user("keep this")]
    assert {**redacted[0], "arguments": None} == {**CALL, "arguments": None}
    assert await bridge.arun_orm(columns_containing, "plantedsecret") == []


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


async def run(agent: Agent[Any], text: str, **options: Any) -> None:
    await Runner.run(agent, text, **options)


async def run_streamed(agent: Agent[Any], text: str, **options: Any) -> None:
    streamed = Runner.run_streamed(agent, text, **options)
    async for _ in streamed.stream_events():
        pass


@pytest.mark.parametrize("session_class", [DjangoSession, AdvancedDjangoSession])
@pytest.mark.parametrize("runs", [run, run_streamed])
@pytest.mark.parametrize("whole", [False, True])
async def test_a_run_under_way_does_not_send_it_once_more(session_class, runs, whole, ada):
    session = session_class("s", owner=lambda wrapper: wrapper.context if wrapper else ada)

    @function_tool
    async def look_up(code: str) -> str:
        """Look something up, while somebody redacts."""
        found = await bridge.arun_orm(SessionStore(owner=ada).get, "s")
        first = await bridge.arun_orm(SessionMessage.objects.earliest, "message_id")
        scopes: list[Any] = [Find(SECRET), *([WholeMessage(first.pk)] if whole else [])]
        await aredact(found.id, *scopes, reason="A request")
        return f"{code} found"

    model = ScriptedModel([call("look_up", code=SECRET), call("look_up", code="it"), "Done."])
    agent = Agent(name="assistant", model=model, tools=[look_up])
    config = RunConfig(call_model_input_filter=session.redact_model_input)
    await session.add_items([user(f"My code is {SECRET}")])

    await runs(agent, f"Look up {SECRET}", session=session, run_config=config, context=ada)

    first, *later = model.requests
    assert SECRET in str(first)
    assert len(later) == 2
    assert "plantedsecret" not in str(later)
    assert len([item for item in later[1] if "call_id" in item]) == 4
    assert await bridge.arun_orm(columns_containing, "plantedsecret") == []


@pytest.mark.parametrize("session_class", [DjangoSession, AdvancedDjangoSession])
@pytest.mark.parametrize("cleared", [False, True])
async def test_a_new_object_that_is_handed_old_items_writes_none_of_it(session_class, cleared):
    old: list[Any] = [
        user(f"My code is {SECRET}"),
        CALL,
        {"type": "function_call_output", "call_id": "call_1", "output": SECRET},
        {
            "type": "message",
            "role": "assistant",
            "id": "msg_1",
            "status": "completed",
            "content": [{"type": "output_text", "text": f"I note {SECRET}", "annotations": []}],
        },
        user("ok"),
    ]
    await session_class("s").add_items(list(old))
    found = await bridge.arun_orm(SessionStore().get, "s")
    (short,) = await bridge.arun_orm(lambda: list(SessionMessage.objects.filter(message_id=4)))
    scopes: list[Any] = [Find("plantedsecret"), WholeMessage(short.pk)]
    await aredact(found.id, *scopes, reason="A request")
    redacted = await bridge.arun_orm(stored)
    if cleared:
        await session_class("s").clear_session()

    # From a job's payload, a browser, or a state that was stored elsewhere.
    again = session_class("s")
    await again.add_items([user("new"), *old])

    assert await bridge.arun_orm(columns_containing, "plantedsecret") == []
    written = (await again.get_items())[0 if cleared else 5 :]
    # What is as short may be said anew.
    assert [written[0], written[5]] == [user("new"), user("ok")]
    if not cleared:
        assert written[1:5] == redacted[:4]


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("before", [True, False])
async def test_a_fork_recognizes_what_was_redacted_in_the_sessions_of_its_line(before, again, ada):
    store = SessionStore(owner=ada)
    secret, ended = user(f"My code is {SECRET}"), CALL
    await DjangoSession("s", owner=ada).add_items([secret, ended])
    found = await store.aget("s")

    async def remove() -> None:
        await aredact(found.id, Find("plantedsecret"), reason="A request")

    if before:
        await remove()
    fork = await store.sessions.afork(found, session_id="fork")
    if again:
        fork = await store.sessions.afork(fork, session_id="fork 2")
    session = DjangoSession(fork.session_id, owner=ada)
    # An object that has written before the redaction recognizes it, too.
    await session.add_items([user("new")])
    if not before:
        await remove()
    await session.add_items([secret, user("other"), ended])

    assert (await store.sessions.aancestors(fork.id))[0] == found.id
    written = (await session.get_items())[3:]
    redacted = await DjangoSession("s", owner=ada).get_items()
    assert written == [redacted[0], user("other"), redacted[1]]
    assert "plantedsecret" not in str(written)


async def test_a_fork_does_not_read_the_redacted_version_of_another_owner(ada, bob):
    store = SessionStore(owner=ada)
    secret = user(f"My code is {SECRET}")
    await DjangoSession("s", owner=ada).add_items([secret])
    found = await store.aget("s")
    fork = await store.sessions.afork(found, session_id="fork")
    await aredact(found.id, Find("plantedsecret"), reason="A request")
    await bridge.arun_orm(lambda: Session.objects.filter(pk=fork.id).update(owner=bob))

    session = DjangoSession("fork", owner=bob)
    await session.add_items([secret])

    assert (await session.get_items())[-1] == masking.redact_message(OPENAI, secret)
