"""The agents that writers run: the real SDKs, with models that need no network.

What the user says carries a token ``w1.2.3u``; the call of the tool, its result and the answer
carry ``w1.2.3c``, ``w1.2.3r`` and ``w1.2.3a``, so that every message is known beforehand.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import agents
import strands
from strands.agent.conversation_manager import SlidingWindowConversationManager

from django_agent_sessions.adapters.openai_agents import DjangoSession
from django_agent_sessions.adapters.strands import DjangoSessionManager
from example_project.chat.offline import rules
from example_project.chat.offline.openai_model import OfflineOpenAIModel
from example_project.chat.offline.strands_model import OfflineStrandsModel

from . import marks

LOOK_UP = "Please look it up."
AGENT = "concierge"
_RUN_CONFIG = agents.RunConfig(tracing_disabled=True)
_WINDOW = 20

Meanwhile = Callable[[], None]


def tokens_of(token: str, *, tool: bool) -> list[str]:
    """Tells which messages a turn has, in order."""
    return [f"{token}{part}" for part in ("ucra" if tool else "ua")]


def said(token: str, *, tool: bool, secret: str | None) -> str:
    """Writes what the user says."""
    return marked_turn(token, "u", LOOK_UP if tool else "Hello.", secret)


def marked_turn(token: str, part: str, text: str, secret: str | None = None) -> str:
    """Writes one message of a turn."""
    return marks.marked(f"{token}{part}", text, secret)


def answer(conversation: Sequence[rules.Turn], tools: Collection[str]) -> rules.Step:
    """Answers the last thing that a user said, and repeats the secret in it."""
    last, token = _last_question(conversation)
    text = conversation[last].text
    if LOOK_UP in text and last == len(conversation) - 1:
        return rules.Call("look_up", {"what": marked_turn(token, "c", "")})
    secrets = sorted(marks.secrets_in(text))
    return marked_turn(token, "a", "You said it.", secrets[0] if secrets else None)


def _last_question(conversation: Sequence[rules.Turn]) -> tuple[int, str]:
    for index in range(len(conversation) - 1, -1, -1):
        turn = conversation[index]
        tokens = marks.tokens_in(turn.text)
        if turn.role == "user" and tokens and tokens[0].endswith("u"):
            return index, tokens[0][:-1]
    raise ValueError("the user said nothing")


def result_for(what: str) -> str:
    """Writes what the tool returns for a call."""
    (token,) = marks.tokens_in(what)
    return marked_turn(token[:-1], "r", "It is there.")


class StrandsAgent:
    """An agent of Strands that remembers."""

    def __init__(self, session_id: str, meanwhile: Meanwhile | None = None) -> None:
        @strands.tool
        def look_up(what: str) -> str:
            """Looks something up."""
            if meanwhile is not None:
                meanwhile()
            return result_for(what)

        self.agent = strands.Agent(
            agent_id=AGENT,
            model=OfflineStrandsModel(answer),
            tools=[look_up],
            session_manager=DjangoSessionManager(session_id),
            conversation_manager=SlidingWindowConversationManager(window_size=_WINDOW),
            callback_handler=None,
        )

    def say(self, text: str) -> str:
        """Talks to it."""
        return str(self.agent(text))


class OpenAIAgent:
    """An agent of the OpenAI Agents SDK that remembers."""

    def __init__(self, session_id: str, meanwhile: Meanwhile | None = None) -> None:
        @agents.function_tool(failure_error_function=None)
        def look_up(what: str) -> str:
            """Looks something up."""
            if meanwhile is not None:
                meanwhile()
            return result_for(what)

        self.session = DjangoSession(session_id, session_settings={"limit": _WINDOW})
        self.agent: agents.Agent[Any] = agents.Agent(
            name=AGENT, model=OfflineOpenAIModel(answer), tools=[look_up]
        )

    async def say(self, text: str) -> str:
        """Talks to it."""
        result = await agents.Runner.run(
            self.agent, text, session=self.session, run_config=_RUN_CONFIG
        )
        return str(result.final_output)
