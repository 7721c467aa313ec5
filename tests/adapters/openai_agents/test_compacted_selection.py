"""Which items a compaction sends and replaces: calls without results, and what was withheld."""

from __future__ import annotations

from typing import Any

import pytest
from agents import OpenAIResponsesCompactionSession, RunConfig, Runner, SQLiteSession
from agents.run import CallModelData, ModelInputData

from django_agent_sessions.adapters.openai_agents import AdvancedDjangoSession, DjangoSession
from django_agent_sessions.db.bridge import arun_orm
from django_agent_sessions.exceptions import SessionConflictError

from .compact_api import SUMMARY, Server
from .refusals import answers, asks, calls, says, thinks
from .scripted import call
from .team import assistant, requests, texts
from .test_compaction import on_main, plain, server

__all__ = ["server"]
pytestmark = pytest.mark.django_db(transaction=True)

SHELL: Any = {"type": "local_shell_call", "id": "ls", "call_id": "c", "action": {"type": "exec"}}
SHELL_OUTPUT: Any = {"type": "local_shell_call_output", "id": "c", "output": "done"}
ASKED: Any = {"type": "mcp_approval_request", "id": "mcpr_1", "name": "pay", "server_label": "bank"}
REPLY: Any = {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}
SAID: Any = [asks("b"), says("one", "4"), asks("c"), says("two", "5")]

# What a conversation begins with, and what of it is summarized.
ABANDONED: dict[str, tuple[list[Any], list[Any]]] = {
    "a call": ([asks("a"), calls("c1")], [asks("a")]),
    "a call with reasoning": ([asks("a"), thinks("1"), calls("c1")], [asks("a")]),
    "a result without its call": ([asks("a"), answers("gone")], [asks("a")]),
    "an approval": ([asks("a"), ASKED], [asks("a")]),
    "an answer without its question": ([asks("a"), REPLY], [asks("a")]),
    "a call that was answered": ([asks("a"), calls("c"), answers("c")], []),
    "a shell's in the API's form": ([asks("a"), SHELL, SHELL_OUTPUT], []),
    "an approval that was given": ([asks("a"), ASKED, REPLY], []),
    "bare reasoning": ([asks("a"), thinks("1")], [asks("a")]),
}


@pytest.mark.parametrize("beginning", ABANDONED)
@pytest.mark.parametrize("session_class", [DjangoSession, AdvancedDjangoSession])
async def test_what_was_abandoned_is_left_out_of_the_summary(server, session_class, beginning):
    items, expected = ABANDONED[beginning]
    session = session_class("s", compaction=server.compaction())
    await session.add_items([*items, *SAID])

    await session.run_compaction({"force": True})

    assert server.requests[0]["input"] == [*(expected or items), *SAID]
    assert await arun_orm(on_main) == [SUMMARY]


@pytest.mark.parametrize("items", [[asks("a"), calls("c1")], [asks("a"), ASKED]])
async def test_a_run_after_an_abandoned_call_is_compacted_as_a_whole(server, items):
    session = DjangoSession("s", compaction=server.compaction(least=1))
    await session.add_items([*items, *SAID])

    await Runner.run(assistant(), "d", session=session)

    assert texts(server.requests[0]["input"]) == ["a", "b", "one", "c", "two", "d", "You said: d"]
    assert await arun_orm(on_main) == [SUMMARY]


@pytest.mark.parametrize("waiting", [[calls("c1")], [thinks("1"), calls("c1")], [ASKED]])
async def test_a_call_of_the_last_turn_waits(server, waiting):
    session = DjangoSession("s", compaction=server.compaction())
    await session.add_items([*SAID, asks("d"), *waiting])

    with pytest.raises(SessionConflictError, match="waits for its result"):
        await session.run_compaction({"force": True})

    assert server.requests == []


async def test_a_call_of_a_stored_run_waits_also_in_an_earlier_turn(server, caplog):
    session = DjangoSession("s", compaction=server.compaction(least=1))
    agent = assistant(call("pay", amount=7), "Paid.")
    result = await Runner.run(agent, "Pay", session=session)
    assert await session.save_run_state(result)
    await Runner.run(assistant(), "meanwhile", session=session)
    assert server.requests == []
    # That nothing is compacted is not silent.
    assert "a call in the conversation waits for its result" in caplog.text
    with pytest.raises(SessionConflictError):
        await session.run_compaction({"force": True})

    state: Any = await session.take_run_state(agent)
    state.approve(state.get_interruptions()[0])
    await Runner.run(agent, state, session=session)
    # Its model has not seen what was said meanwhile; that of the next run has.
    await Runner.run(assistant(), "thanks", session=session)

    assert await arun_orm(on_main) == [SUMMARY]


async def test_a_run_that_was_given_up_does_not_hold_back_later_turns(server):
    session = DjangoSession("s", compaction=server.compaction(least=1))
    result = await Runner.run(assistant(call("pay", amount=7)), "Pay", session=session)
    await session.save_run_state(result)
    await session.take_run_state(assistant())
    await Runner.run(assistant(), "forget it", session=session)

    assert texts(server.requests[-1]["input"]) == ["Pay", "forget it", "You said: forget it"]
    assert await arun_orm(on_main) == [SUMMARY]


# --- what an application withholds -----------------------------------------------------------


def without_private(history: list[Any], new: list[Any]) -> list[Any]:
    return [item for item in history if "PRIVATE" not in str(item)] + new


def filter_private(data: CallModelData[Any]) -> ModelInputData:
    given = data.model_data
    return ModelInputData(without_private(given.input, []), given.instructions)


WAYS = {
    "a callback": RunConfig(session_input_callback=without_private),
    "a filter": RunConfig(call_model_input_filter=filter_private),
}
HISTORIES: dict[str, list[Any]] = {
    "first": [asks("PRIVATE"), says("noted", "4"), *SAID],
    "in the middle": [asks("a"), says("hi", "4"), asks("PRIVATE"), says("noted", "5"), *SAID],
    "the model's": [asks("a"), says("PRIVATE", "4"), *SAID],
}


@pytest.mark.parametrize("limit", [None, 7])
@pytest.mark.parametrize("mode", ["input", "auto"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("history", HISTORIES)
async def test_what_was_withheld_is_neither_sent_nor_replaced(server, history, way, mode, limit):
    """As by the SDK's own compaction of its own store."""
    theirs = Server()
    items, settings = HISTORIES[history], None if limit is None else {"limit": limit}
    inner = SQLiteSession("s")
    inner.session_settings = DjangoSession("s", session_settings=settings).session_settings
    oracle: Any = OpenAIResponsesCompactionSession(
        "s",
        inner,
        client=theirs.client,
        compaction_mode=mode,
        should_trigger_compaction=server.compaction().should_trigger_compaction,
    )
    compaction = server.compaction(compaction_mode=mode)
    ours = DjangoSession("s", session_settings=settings, compaction=compaction)
    for session in (inner, DjangoSession("s")):
        await session.add_items(list(items))

    for text in ("d", "e", "f"):
        for session in (oracle, ours):
            agent = assistant("Answer")
            await Runner.run(agent, text, session=session, run_config=WAYS[way])
            assert "PRIVATE" not in str(requests(agent))

    assert server.requests
    assert "PRIVATE" not in str(server.requests)
    assert [len(r.get("input", ())) for r in server.requests] == [
        len(r.get("input", ())) for r in theirs.requests
    ]
    kept = await arun_orm(on_main)
    assert "PRIVATE" in str(kept)
    assert SUMMARY in kept
    assert plain(kept) == plain(await inner.get_items(1000))
