"""One way to talk to an agent of either SDK, which remembers in the database.

The SDKs are the real ones; their models are scripted. Every agent echoes what it is told, unless
it has steps to play.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol

from django_agent_sessions.models import SessionMessage


@dataclass(frozen=True)
class Call:
    """A step in which the model calls a tool."""

    write_tool_call: str
    arguments: dict[str, Any] = field(default_factory=dict)


Step = str | Call
Tool = Callable[..., Any]


class Agent(Protocol):
    """An agent that remembers."""

    def say(self, text: str) -> str:
        """Talks to it in the SDK's sync way, and returns its answer."""

    async def asay(self, text: str) -> str:
        """Talks to it in the SDK's async way, and returns its answer."""


class SDK(Protocol):
    """Makes the agents of one SDK: ``sdk("session").say("text")``."""

    name: str

    def __call__(
        self, session_id: str, *, steps: Sequence[Step] = (), tools: Sequence[Tool] = ()
    ) -> Agent:
        """Builds an agent, in any thread and in a running loop too."""

    async def load(
        self, session_id: str, *, steps: Sequence[Step] = (), tools: Sequence[Tool] = ()
    ) -> Agent:
        """Builds an agent as async code should."""


_CLASSES = {"strands": "StrandsAgent", "openai": "OpenAIAgent"}
NAMES = list(_CLASSES)


def sdk_named(name: str) -> SDK:
    """Imports one SDK, because a process that a test starts does not need both."""
    found: SDK = getattr(import_module(f"tests.contexts.chats_{name}"), _CLASSES[name])
    return found


def said(session_id: str) -> list[str]:
    """Tells what was said in a session, from the database, in order."""
    found = SessionMessage.objects.filter(session__session_id=session_id).order_by("message_id")
    assert [m.message_id for m in found] == list(range(len(found)))
    return [m.text for m in found if m.role in ("user", "assistant") and m.text]


def turns(*texts: str) -> list[str]:
    """What a conversation holds in which a user said some texts, each of which was echoed."""
    return [line for text in texts for line in (text, f"You said: {text}")]
