"""The documentation's chats, and some with tighter bounds and other tools."""

from __future__ import annotations

import asyncio
import importlib.util
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import agents
import strands
from asgiref.sync import sync_to_async

from django_agent_sessions.adapters.openai_agents import DjangoSession
from django_agent_sessions.adapters.strands import DjangoSessionManager
from django_agent_sessions.models.permissions import SessionPermission
from django_agent_sessions.rest.chat.ai_sdk import Chat, ChatView, chat_urls
from django_agent_sessions.rest.problems import Conflict

from .models import OPENAI_TOOLS, STRANDS_TOOLS, OpenAIModel, StrandsModel
from .scripts import wait_at, wait_here

_EXAMPLE = Path(__file__).parents[4] / "docs" / "examples" / "ai_sdk_server.py"


def _documented() -> Any:
    spec = importlib.util.spec_from_file_location("ai_sdk_server", _EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


EXAMPLE = _documented()


def _regenerating(base: type[ChatView]) -> type[ChatView]:
    """The recipe on the page, for one of its chats."""
    page = (_EXAMPLE.parents[1] / "how-to" / "ai-sdk.md").read_text()
    (code,) = (code for code in page.split("```python\n") if "class RegeneratingChat" in code)
    names: dict[str, Any] = {"SupportChat": base}
    exec(code.partition("```")[0], names)  # noqa: S102 - our own page
    made: type[ChatView] = names["RegeneratingChat"]
    return made


class StrandsTools(ChatView):
    stop_grace_seconds = 0.2

    async def respond(self, chat: Chat) -> Any:
        agent = strands.Agent(
            model=StrandsModel(),
            tools=STRANDS_TOOLS,
            session_manager=await DjangoSessionManager.load(
                chat.session_id, owner=chat.owner, scope=chat.scope
            ),
            callback_handler=None,
        )
        async for event in agent.stream_async(chat.strands_input):
            yield event


class OpenAITools(ChatView):
    stop_grace_seconds = 0.2
    model = OpenAIModel()

    def respond(self, chat: Chat) -> Any:
        agent: agents.Agent[Any] = agents.Agent(name="tools", model=self.model, tools=OPENAI_TOOLS)
        session = DjangoSession(chat.session_id, owner=chat.owner, scope=chat.scope, create=False)
        return agents.Runner.run_streamed(agent, chat.openai_input, session=session)


class UnawareStrands(StrandsTools):
    """It makes the input of its agent by itself."""

    async def respond(self, chat: Chat) -> Any:
        agent = strands.Agent(
            model=StrandsModel(),
            session_manager=DjangoSessionManager(
                chat.session_id, owner=chat.owner, scope=chat.scope
            ),
            messages=[
                {"role": "user", "content": [{"text": "An example"}]},
                {"role": "assistant", "content": [{"text": "of an answer"}]},
            ],
            callback_handler=None,
        )
        async for event in agent.stream_async(chat.text):
            yield event


class UnawareOpenAI(OpenAITools):
    def respond(self, chat: Chat) -> Any:
        agent: agents.Agent[Any] = agents.Agent(name="tools", model=self.model)
        session = DjangoSession(chat.session_id, owner=chat.owner, scope=chat.scope, create=False)
        return agents.Runner.run_streamed(agent, chat.text, session=session)


class Team(OpenAITools):
    """An agent of another session is asked first, and one of the same session then."""

    async def respond(self, chat: Chat) -> Any:
        agent: agents.Agent[Any] = agents.Agent(name="team", model=self.model)
        elsewhere = DjangoSession(f"{chat.session_id}-router", owner=chat.owner)
        async for _ in agents.Runner.run_streamed(
            agent, "Which language?", session=elsewhere
        ).stream_events():
            pass
        session = DjangoSession(chat.session_id, owner=chat.owner, scope=chat.scope, create=False)
        helper = DjangoSession(
            chat.session_id, agent_id="helper", owner=chat.owner, scope=chat.scope, create=False
        )
        answer = agents.Runner.run_streamed(agent, chat.openai_input, session=session)
        async for event in answer.stream_events():
            yield event
        answer = agents.Runner.run_streamed(agent, "Check it", session=helper)
        async for event in answer.stream_events():
            yield event


class Whole(OpenAITools):
    """A model that delivers no deltas."""

    model = OpenAIModel(whole=True)


class Bounded(StrandsTools):
    max_runs_of_user = 1
    max_buffer_bytes = 100_000
    max_characters = 100
    max_files = 1
    max_file_bytes = 100


class Hurried(StrandsTools):
    max_run_seconds = 0.2


class Blocking(ChatView):
    """A sync tool that takes long, in the thread that sync code gets by default."""

    stop_grace_seconds = 0.2

    async def respond(self, chat: Chat) -> Any:
        yield {"data": "begin"}
        await sync_to_async(wait_here)(chat.text)


class Stubborn(ChatView):
    """An agent that cannot be cancelled."""

    stop_grace_seconds = 0.2

    async def respond(self, chat: Chat) -> Any:
        yield {"data": "begin"}
        waiting = asyncio.create_task(wait_at(chat.text))
        while not waiting.done():
            with suppress(asyncio.CancelledError):
                await asyncio.shield(waiting)
        yield {"data": "end"}


class Closed(StrandsTools):
    async def accept(self, chat: Chat) -> None:
        raise Conflict("Nobody answers here.")


class Readers(StrandsTools):
    """Its users may look, and not talk."""

    owner_may: ClassVar[Any] = frozenset({SessionPermission.READ})


class Nobody(StrandsTools):
    owner_may: ClassVar[Any] = frozenset()


urlpatterns = [
    *EXAMPLE.urlpatterns,
    *chat_urls(_regenerating(EXAMPLE.SupportChat), "again/support", name="again-support"),
    *chat_urls(_regenerating(EXAMPLE.ResearchChat), "again/research", name="again-research"),
    *chat_urls(StrandsTools, "strands", name="strands"),
    *chat_urls(OpenAITools, "openai", name="openai"),
    *chat_urls(UnawareStrands, "unaware-strands", name="unaware-strands"),
    *chat_urls(UnawareOpenAI, "unaware-openai", name="unaware-openai"),
    *chat_urls(Team, "team", name="team"),
    *chat_urls(Whole, "whole", name="whole"),
    *chat_urls(Bounded, "bounded/", name="bounded"),
    *chat_urls(Hurried, "hurried", name="hurried"),
    *chat_urls(Blocking, "blocking", name="blocking"),
    *chat_urls(Stubborn, "stubborn", name="stubborn"),
    *chat_urls(Closed, "closed", name="closed"),
    *chat_urls(Readers, "readers", name="readers"),
    *chat_urls(Nobody, "nobody", name="nobody"),
]
