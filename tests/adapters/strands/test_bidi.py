"""A bidirectional agent: placeholders are replaced where they are, and all is restored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from strands.bidi.agent import BidiAgent
from strands.bidi.models.model import BidiModel
from strands.bidi.types.events import (
    BidiResponseStartEvent,
    BidiResponseStopEvent,
    BidiToolUseBlocksEvent,
    BidiTranscriptDeltaEvent,
    BidiTranscriptStartEvent,
    BidiTranscriptStopEvent,
)
from strands.types.content import Message

from django_agent_sessions.adapters.strands import DjangoSessionManager
from django_agent_sessions.models import Session, SessionMessage
from tests.texts import text_of

from .agents import stored, texts
from .tools import add
from .traffic import watched

pytestmark = pytest.mark.django_db(transaction=True)


class ScriptedBidiModel(BidiModel):
    """Plays events; then waits until it is stopped."""

    def __init__(self, *events: Any) -> None:
        self.events = list(events)
        self.started_with: list[Any] = []
        self.sent: list[Any] = []
        self._stopped = asyncio.Event()

    def update_config(self, **model_config: Any) -> None:
        """There is nothing to configure."""

    def get_config(self) -> dict[str, Any]:
        return {"model_id": "scripted"}

    async def start(
        self, system_prompt: Any = None, tools: Any = None, messages: Any = None, **kwargs: Any
    ) -> None:
        self.started_with = list(messages or [])

    async def stop(self) -> None:
        self._stopped.set()

    async def receive(self) -> AsyncGenerator[Any]:
        for event in self.events:
            yield event
        await self._stopped.wait()

    async def send(self, content: Any) -> None:
        self.sent.append(content)


def transcript(content_id: str, *deltas: str, role: Any = "user", ended: bool = True) -> list[Any]:
    return [
        BidiTranscriptStartEvent(role, content_id),
        *(BidiTranscriptDeltaEvent(delta, role, content_id) for delta in deltas),
        *([BidiTranscriptStopEvent(role, content_id)] if ended else []),
    ]


async def run(*events: Any, until: str, prompt: str = "", loaded: bool = True) -> BidiAgent:
    """Runs an agent until the last of its events has come out of it."""
    manager = await DjangoSessionManager.load("s") if loaded else DjangoSessionManager("s")
    agent = BidiAgent(model=ScriptedBidiModel(*events), tools=[add], session_manager=manager)
    await agent.start()
    if prompt:
        await agent.send(prompt)
    async for event in agent.receive():
        if type(event).__name__ == until or event.get("response_id") == until:
            break
    await agent.stop()
    return agent


@pytest.mark.parametrize("loaded", [True, False])
def test_a_spoken_conversation_is_stored_and_restored(loaded):
    async def converse() -> BidiAgent:
        return await run(
            BidiResponseStartEvent("r"),
            *transcript("u", "How ", "are you?"),
            *transcript("a", "I am ", "fine.", role="assistant"),
            BidiResponseStopEvent("end"),
            until="end",
            loaded=loaded,
        )

    agent = asyncio.run(converse())

    assert texts(stored()) == ["How are you?", "I am fine."]
    assert stored() == agent.messages

    again = asyncio.run(run(BidiResponseStopEvent("end"), until="end", prompt="And now?"))
    assert isinstance(again.model, ScriptedBidiModel)
    assert texts(again.model.started_with) == ["How are you?", "I am fine."]
    assert texts(stored()) == ["How are you?", "I am fine.", "And now?"]
    assert Session.objects.get().message_count == 3


def test_transcripts_that_overlap_are_each_replaced_in_their_place():
    user, assistant = transcript("u", "First"), transcript("a", "Second", role="assistant")
    events = [user[0], assistant[0], assistant[1], assistant[2], user[1], user[2]]

    agent = asyncio.run(run(*events, BidiResponseStopEvent("end"), until="end"))

    assert texts(stored()) == ["First", "Second"]
    assert stored() == agent.messages
    rows = SessionMessage.objects.order_by("message_id")
    assert [text_of(row) for row in rows] == ["First", "Second"]
    assert [row.revision for row in rows] == [1, 1]


def test_a_transcript_that_never_ended_says_so():
    asyncio.run(
        run(*transcript("u", "half a sen", ended=False), BidiResponseStopEvent("end"), until="end")
    )

    assert texts(stored()) == ["[Transcript unavailable.]"]


def test_a_tool_call_and_its_result():
    use: Any = {"toolUseId": "t", "name": "add", "input": {"a": 1, "b": 2}}

    agent = asyncio.run(run(BidiToolUseBlocksEvent([use]), until="ToolResultMessageEvent"))

    assert texts(stored())[-2:] == ["call add", "result 3"]
    assert stored() == agent.messages
    again = asyncio.run(run(BidiResponseStopEvent("end"), until="end"))
    assert again.state.get() == {"sums": 1}
    assert again.messages == agent.messages


def test_a_placeholder_whose_write_failed_is_written_as_what_it_became():
    async def main() -> list[Any]:
        manager = await DjangoSessionManager.load("s")
        agent = BidiAgent(model=ScriptedBidiModel(), session_manager=manager)
        placeholder: Message = {"role": "user", "content": []}
        with watched() as traffic:
            traffic.failing = lambda sql: OSError("no") if "INSERT" in sql else None
            with pytest.raises(OSError, match="no"):
                await agent._append_messages(placeholder)
            traffic.failing = lambda sql: None
            await agent._update_message({**placeholder, "content": [{"text": "Hello"}]})
            await agent._append_messages({"role": "user", "content": [{"text": "And this"}]})
        return agent.messages

    messages = asyncio.run(main())

    assert texts(stored()) == ["Hello", "And this"]
    assert stored() == messages
