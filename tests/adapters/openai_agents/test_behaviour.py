"""The rows of docs/reference/openai-behaviour.md, each beside the SDK's own store.

A release of the SDK that behaves otherwise turns a test red: the page is then to be corrected.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest
from agents import (
    GuardrailFunctionOutput,
    InputGuardrailTripwireTriggered,
    OpenAIResponsesCompactionSession,
    RunConfig,
    Runner,
    SessionSettings,
    SQLiteSession,
    input_guardrail,
)
from agents.extensions.memory import AdvancedSQLiteSession, EncryptedSession

from django_agent_sessions.adapters.openai_agents import AdvancedDjangoSession, DjangoSession
from tests.processes import ROOT

from .compact_api import SUMMARY, Server
from .refusals import answers, asks, calls, says, thinks
from .scripted import call
from .team import assistant, requests
from .test_compacted_selection import SAID, without_private

pytestmark = pytest.mark.django_db(transaction=True)

UNTRACED = RunConfig(tracing_disabled=True)


def sqlite() -> Any:
    return SQLiteSession("s")


def ours() -> Any:
    return DjangoSession("s")


def both(tell: Callable[[Any], Any]) -> tuple[Any, Any]:
    """What a script finds with the SDK's store, and with ours."""
    return asyncio.run(tell(sqlite())), asyncio.run(tell(ours()))


def kinds(items: Any) -> list[str]:
    return [str(item.get("type") or item.get("role")) for item in items]


def test_row_1_limits_that_are_not_positive():
    async def tell(session: Any) -> Any:
        await session.add_items([asks(str(number)) for number in range(5)])
        return [len(await session.get_items(limit)) for limit in (2, 0, -3)]

    assert both(tell) == ([2, 0, 5], [2, 0, 5])


def test_row_2_a_run_cannot_lift_the_limit_of_a_session():
    async def tell(session: Any) -> Any:
        session.session_settings = SessionSettings(limit=1)
        await session.add_items(list(SAID))
        agent = assistant()
        unlimited = RunConfig(session_settings=SessionSettings(limit=None))
        await Runner.run(agent, "next", session=session, run_config=unlimited)
        return len(requests(agent)[0])

    assert both(tell) == (2, 2)


def test_row_3_type_errors():
    for make in (SQLiteSession, DjangoSession):
        unknown: Any = {"limits": 1}
        with pytest.raises(TypeError):
            make("s", session_settings=unknown)
        with pytest.raises(TypeError):
            asyncio.run(make("s").add_items([asks({1})]))  # type: ignore[arg-type] # no text


def test_row_4_a_closed_session():
    for session, fails in ((sqlite(), True), (ours(), False)):
        session.close()
        if fails:
            with pytest.raises(RuntimeError):
                asyncio.run(session.get_items())
        else:
            assert asyncio.run(session.get_items()) == []


def test_row_5_a_tripped_input_guardrail():
    @input_guardrail
    def refuse(*_: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=True)

    async def tell(session: Any) -> Any:
        with pytest.raises(InputGuardrailTripwireTriggered):
            await Runner.run(assistant(input_guardrails=[refuse]), "a", session=session)
        return await session.get_items()

    assert both(tell) == ([asks("a")], [asks("a")])


def test_row_6_a_summary_of_a_callback_is_stored():
    def summarize(history: list[Any], new: list[Any]) -> list[Any]:
        return [asks(f"{len(history)} items"), *new]

    async def tell(session: Any) -> Any:
        await session.add_items(list(SAID))
        config = RunConfig(session_input_callback=summarize)
        await Runner.run(assistant(), "next", session=session, run_config=config)
        return asks("4 items") in await session.get_items()

    assert both(tell) == (True, True)


def test_row_7_to_input_list_doubles_a_conversation():
    async def tell(session: Any) -> Any:
        result = await Runner.run(assistant(), "a", session=session)
        given: Any = [*result.to_input_list(), asks("b")]
        await Runner.run(assistant(), given, session=session)
        return len(await session.get_items())

    assert both(tell) == (6, 6)


def test_row_8_a_sub_agent_with_the_same_session():
    async def tell(session: Any) -> Any:
        sub = assistant("Sunny.", name="weather")
        tool = sub.as_tool("weather", "The weather.", session=session)
        agent = assistant(call("weather", input="Now?"), "It is sunny.").clone(tools=[tool])
        await Runner.run(agent, "Weather?", session=session)
        return kinds(await session.get_items())

    found = both(tell)
    assert found[0] == found[1]
    assert found[0].index("function_call") > 2


@pytest.mark.parametrize("make", [AdvancedSQLiteSession, AdvancedDjangoSession])
def test_row_9_encrypted_items_are_no_turns(make):
    options = {"create_tables": True} if make is AdvancedSQLiteSession else {}
    inner: Any = make(session_id="s", **options)
    session = EncryptedSession("s", inner, encryption_key="a key")
    asyncio.run(session.add_items([asks("a"), *SAID]))

    assert asyncio.run(inner.get_conversation_turns()) == []


async def compacted(session: Any, *, config: RunConfig = UNTRACED) -> list[Any]:
    await session.add_items([asks("PRIVATE"), says("noted", "9"), *SAID])
    await Runner.run(assistant(), "d", session=session, run_config=config)
    found: list[Any] = await session.get_items(1000)
    return found


def test_row_10_compaction_of_what_was_withheld():
    config = RunConfig(session_input_callback=without_private)
    theirs, server = Server(), Server()
    wrapped = theirs.session(SQLiteSession("s"))
    own = DjangoSession("s", compaction=server.compaction())

    for session, asked in ((wrapped, theirs), (own, server)):
        found = asyncio.run(compacted(session, config=config))
        assert kinds(found) == ["user", "message", "compaction"]
        assert "PRIVATE" not in str(asked.requests)


def test_row_11_compaction_with_a_limit():
    def limited(session: Any) -> Any:
        session.session_settings = SessionSettings(limit=4)
        return session

    wrapped = Server().session(limited(SQLiteSession("s")), least=2)
    beside = Server().session(limited(DjangoSession("beside")), least=2)
    own = limited(DjangoSession("s", compaction=Server().compaction(least=2)))

    assert hasattr(SQLiteSession, "_get_compaction_snapshot")
    assert SUMMARY in asyncio.run(compacted(wrapped))
    assert SUMMARY not in asyncio.run(compacted(beside))
    assert SUMMARY in asyncio.run(compacted(own))


def test_row_12_compaction_of_a_side_branch():
    theirs: Any = AdvancedSQLiteSession(session_id="s", create_tables=True)
    wrapped: Any = OpenAIResponsesCompactionSession("s", theirs, client=Server().client)
    own: Any = AdvancedDjangoSession("s", compaction=Server().compaction())

    async def tell(session: Any, compact: Any) -> int:
        await session.add_items([asks("a"), *SAID])
        await session.create_branch_from_turn(2, "side")
        await session.add_items([asks("e"), says("five", "9")])
        await compact.run_compaction({"force": True})
        return len(await session.get_items(branch_id="main"))

    assert asyncio.run(tell(theirs, wrapped)) < len(SAID)
    assert asyncio.run(tell(own, own)) == 1 + len(SAID)


def sent(session: Any, items: list[Any], *, pops: int = 0, config: RunConfig = UNTRACED) -> Any:
    """What the model of the next run is sent of a conversation."""

    async def run() -> Any:
        await session.add_items(list(items))
        for _ in range(pops):
            await session.pop_item()
        agent = assistant()
        await Runner.run(agent, "next", session=session, run_config=config)
        return requests(agent)[0][:-1]

    return asyncio.run(run())


def test_row_13_reasoning_without_its_following_item():
    items = [asks("a"), thinks("0"), says("one", "0")]

    assert sent(sqlite(), items, pops=1) == items[:2]
    assert sent(ours(), items, pops=1) == items[:1]


def test_row_14_a_message_without_its_reasoning():
    items = [asks("a"), thinks("0"), says("one", "0")]
    config = RunConfig(session_settings=SessionSettings(limit=1))

    assert "id" in sent(sqlite(), items, config=config)[0]
    assert "id" not in sent(ours(), items, config=config)[0]


def test_row_15_results_without_calls_under_a_callback():
    items = [asks("a"), calls("c1"), answers("c1"), says("one", "9")]
    config = RunConfig(
        session_settings=SessionSettings(limit=2),
        session_input_callback=lambda history, new: history + new,
    )

    assert kinds(sent(sqlite(), items, config=config)) == ["function_call_output", "message"]
    assert kinds(sent(ours(), items, config=config)) == ["message"]


def test_each_row_of_the_page_has_a_test():
    page = (ROOT / "docs/reference/openai-behaviour.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \|", page, re.MULTILINE)

    tests = [re.match(r"test_row_(\d+)_", name) for name in globals()]
    assert rows == [found[1] for found in tests if found]
    assert len(rows) == 15
