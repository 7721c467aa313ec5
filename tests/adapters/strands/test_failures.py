"""A write that fails loses nothing, writes nothing twice, and lets the agent go on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from django.db import OperationalError, transaction
from strands import ToolContext, tool
from strands.hooks import AfterInvocationEvent, BeforeModelCallEvent
from strands.types.content import Message

from django_agent_sessions.adapters.strands import DjangoSessionManager
from django_agent_sessions.exceptions import PayloadError
from django_agent_sessions.models import Session, SessionAgent, SessionMultiAgent
from django_agent_sessions.testing import error_texts

from .agents import build, expect_valid, manager_of, model_of, requests, stored, texts
from .process import graph
from .scripted import call
from .traffic import watched

pytestmark = pytest.mark.django_db(transaction=True)


class DiskFullError(Exception):
    """What the database says does not matter."""


def inserts(sql: str) -> Exception | None:
    return DiskFullError("disk full") if sql.startswith("INSERT") else None


def test_a_message_whose_write_failed_is_written_with_the_next():
    agent = build("Hello.", "Fine.")
    agent("Hi")
    with watched() as traffic:
        traffic.failing = inserts
        with pytest.raises(DiskFullError):
            agent("first try")
    assert texts(stored()) == ["Hi", "Hello."]

    agent("second try")

    assert texts(stored()) == ["Hi", "Hello.", "first try", "second try", "Fine."]
    assert build().messages == agent.messages
    assert Session.objects.get().message_count == 5


@pytest.mark.parametrize("failing_write", [0, 1, 2, 3])
def test_any_write_of_a_run_may_fail(failing_write):
    agent = build(call("add", a=1, b=2), "Three.")
    seen = 0

    def fail_one(sql: str) -> Exception | None:
        nonlocal seen
        if not sql.startswith("INSERT"):
            return None
        seen += 1
        return DiskFullError() if seen == failing_write + 1 else None

    with watched() as traffic:
        traffic.failing = fail_one
        with pytest.raises(Exception, match=r"DiskFullError|^$") as failure:
            agent("1 + 2?")
    assert "DiskFullError" in error_texts(failure.value)

    # The end of the run wrote what the failed write did not.
    assert stored() == agent.messages
    agent("Go on")
    assert stored() == agent.messages
    expect_valid(build().messages)
    assert Session.objects.get().message_count == len(stored())


def test_a_write_whose_answer_was_lost_is_not_written_twice():
    agent = build("Hello.", "Fine.")
    agent("Hi")
    with watched() as traffic:
        traffic.failing_after = inserts
        with pytest.raises(DiskFullError):
            agent("was it written?")

    agent("Go on")

    assert texts(stored()) == ["Hi", "Hello.", "was it written?", "Go on", "Fine."]
    assert Session.objects.get().message_count == 5


@tool
def fetch() -> dict[str, Any]:
    """Fetch something that is no JSON."""
    return {"status": "success", "content": [{"json": {"plantedsecret": object()}}]}


@tool(context=True)
def remember(tool_context: ToolContext) -> str:
    """Keep something in the agent's memory that is JSON for Python, and too deep for the store."""
    deep: list[Any] = []
    for _ in range(250):
        deep = [deep]
    tool_context.agent.state.set("measured", deep)
    return "kept"


class TestPayloads:
    def test_a_tool_result_that_is_no_json_leaves_the_conversation_usable(self, caplog):
        manager = DjangoSessionManager("s")
        agent = build(call("fetch"), "Fine.", session_manager=manager)
        agent.tool_registry.process_tools([fetch])

        with pytest.raises(Exception) as refusal:  # noqa: PT011 - Strands may wrap it
            agent("Measure it")
        assert "a message of agent 'default' of session 's': " in error_texts(refusal.value)
        assert "plantedsecret" not in error_texts(refusal.value)
        assert "plantedsecret" not in caplog.text
        agent("How are you?")

        assert texts(stored()) == ["Measure it", "call fetch", "How are you?", "Fine."]
        again = build("Good.")
        again("And now?")
        roles = [message["role"] for message in again.messages]
        assert roles[:4] == ["user", "assistant", "user", "user"]
        results = [b["toolResult"] for b in again.messages[2]["content"]]
        assert [r["status"] for r in results] == ["error"]
        assert texts(again.messages)[3:] == ["How are you?", "Fine.", "And now?", "Good."]

    def test_a_state_over_a_limit_does_not_stop_messages(self):
        agent = build(call("remember"), "Kept.", "Fine.")
        agent.tool_registry.process_tools([remember])

        with pytest.raises(Exception) as refusal:  # noqa: PT011 - Strands may wrap it
            agent("Keep it")
        assert (
            "the state of agent 'default' of session 's': lists and dicts are nested deeper"
            in error_texts(refusal.value)
        )
        agent.state.set("measured", 1.5)
        agent("How are you?")

        assert build().state.get() == {"measured": 1.5}
        assert texts(stored())[:3] == ["Keep it", "call remember", "result kept"]
        assert stored() == agent.messages

    def test_one_bad_message_among_those_an_agent_is_built_with(self):
        bad: Message = {"role": "user", "content": [{"toolResult": object()}]}  # type: ignore[typeddict-item] # that is what is bad
        good: Message = {"role": "user", "content": [{"text": "good"}]}
        manager = asyncio.run(DjangoSessionManager.load("s"))
        agent = build("Hello.", session_manager=manager, messages=[bad, good])

        with pytest.raises(PayloadError):
            agent("Hi")
        agent("Once more")

        assert texts(stored())[:3] == ["good", "Hi", "Once more"]

    def test_a_refused_message_leaves_the_callers_transaction_usable(self):
        agent = build("Hello.")
        with transaction.atomic():
            with pytest.raises(PayloadError):
                manager_of(agent).append_message(
                    {"role": "user", "content": [{"json": {1, 2}}]},  # type: ignore[typeddict-unknown-key] # that is refused
                    agent,
                )
            agent("Hi")

        assert texts(stored()) == ["Hi", "Hello."]


class TestTransactions:
    def test_an_agents_state_that_was_rolled_back_is_written_with_its_next_change(self):
        agent = build("Hello.")
        agent("Hi")
        with transaction.atomic():
            agent.state.set("mood", "good")
            manager_of(agent).sync_agent(agent)
            transaction.set_rollback(True)

        agent.state.set("weather", "bad")
        manager_of(agent).sync_agent(agent)

        assert SessionAgent.objects.get().state == {"mood": "good", "weather": "bad"}
        assert len(requests(agent)) == 1


class TestInACallersTransaction:
    """The first error is the caller's to see, and to retry; after it nothing more is written."""

    @pytest.mark.parametrize("failing", [1, 2, 3, 4])
    def test_the_first_error_surfaces_and_nothing_is_written_after_it(self, failing):
        agent = build("Hello.", call("add", a=1, b=2), "Three.")
        agent("Hi")
        first = OperationalError("deadlock detected")
        writes: list[str] = []

        def fail(sql: str) -> Exception | None:
            if sql.startswith(("INSERT", "UPDATE", "DELETE")):
                writes.append(sql)
            return first if len(writes) == failing else None

        with watched() as traffic:
            traffic.failing = fail
            with pytest.raises(OperationalError) as raised, transaction.atomic():
                agent("1 + 2?")

        assert raised.value is first
        assert len(writes) == failing
        assert texts(stored()) == ["Hi", "Hello."]
        agent("Again")
        assert "Again" in texts(stored())
        expect_valid(build().messages)

    def test_so_does_that_of_an_orchestrator(self):
        first = OperationalError("deadlock detected")
        failed: list[str] = []

        def fail(sql: str) -> Exception | None:
            if failed or (sql.startswith("UPDATE") and SessionMultiAgent._meta.db_table in sql):
                failed.append(sql)
                return first if len(failed) == 1 else RuntimeError("another write")
            return None

        made = graph()
        with watched() as traffic:
            traffic.failing = fail
            with pytest.raises(OperationalError) as raised, transaction.atomic():
                made("Look")

        assert raised.value is first
        assert len(failed) == 1


@pytest.mark.parametrize("cancelled", [1, 2, 3])
def test_a_cancelled_run_is_counted_whatever_other_hooks_wait_for(cancelled):
    async def main() -> None:
        agent = build("Hello.", "Never said.", session_manager=await DjangoSessionManager.load("s"))
        ending, asked = asyncio.Event(), asyncio.Event()

        async def wait(event: AfterInvocationEvent) -> None:
            ending.set()
            await asyncio.sleep(0)
            await asyncio.sleep(0)

        await agent.invoke_async("Hi")
        agent.add_hook(wait, AfterInvocationEvent)
        agent.add_hook(lambda event: asked.set(), BeforeModelCallEvent)
        model_of(agent).delay = 60
        run = asyncio.create_task(agent.invoke_async("How are you?"))
        await asked.wait()
        await asyncio.sleep(0.01)
        run.cancel()
        for _ in range(cancelled - 1):
            await ending.wait()
            run.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await run

    asyncio.run(main())

    assert texts(stored()) == ["Hi", "Hello.", "How are you?"]
    assert Session.objects.get().message_count == 3


def test_a_run_is_counted_whose_other_hooks_fail():
    agent = build("Hello.")

    def fail(event: AfterInvocationEvent) -> None:
        raise RuntimeError("a hook of the application")

    agent.add_hook(fail, AfterInvocationEvent)
    with pytest.raises(RuntimeError, match="a hook"):
        agent("Hi")

    assert Session.objects.get().message_count == 2
