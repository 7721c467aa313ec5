"""A real Strands agent, whose hooks are called as its event loop calls them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from strands import Agent
from strands.agent.conversation_manager import NullConversationManager
from strands.hooks.events import AfterInvocationEvent, MessageAddedEvent
from strands.models import Model
from strands.session.session_manager import SessionManager

from benchmarks.messages import Message

from .interface import Conversation

AGENT_ID = "default"


class _SilentModel(Model):
    """Never asked: only the persistence of messages is measured."""

    def update_config(self, **model_config: Any) -> None:
        raise NotImplementedError

    def get_config(self) -> Any:
        return {}

    def stream(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def structured_output(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


_model = _SilentModel()


def build(manager: SessionManager[Any], messages: Sequence[Message] = ()) -> Agent:
    """Builds an agent, which restores it from its session."""
    return Agent(
        agent_id=AGENT_ID,
        model=_model,
        messages=cast("Any", list(messages)),
        session_manager=manager,
        # A window would hide how much was restored.
        conversation_manager=NullConversationManager(),
        callback_handler=None,
        load_tools_from_directory=False,
    )


class AgentConversation(Conversation):
    """Appends by the hook that a running agent fires after each message."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    async def append(self, message: Message) -> None:
        self.agent.messages.append(cast("Any", message))
        event = MessageAddedEvent(agent=self.agent, message=cast("Any", message))
        await self.agent.hooks.invoke_callbacks_async(event)

    async def end_turn(self) -> None:
        await self.agent.hooks.invoke_callbacks_async(AfterInvocationEvent(agent=self.agent))

    async def fill(self, messages: Sequence[Message]) -> None:
        raise NotImplementedError
