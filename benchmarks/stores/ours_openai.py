"""The app's adapters for the OpenAI Agents SDK: one session object per conversation."""

from __future__ import annotations

from agents.memory import Session

from django_agent_sessions.adapters.openai_agents import AdvancedDjangoSession, DjangoSession

from .openai_session import Sessions
from .ours_store import Ours


class OpenAI(Ours, Sessions):
    """The plain one."""

    name = "OpenAI DjangoSession"
    packages = ("django", "openai-agents")
    prefix = "openai"

    async def session(self, name: str) -> Session:
        return DjangoSession(f"{self.prefix}-{name}", using=self.alias)


class Advanced(Ours, Sessions):
    """The one with branches, turns and usage."""

    name = "OpenAI AdvancedDjangoSession"
    packages = ("django", "openai-agents")
    prefix = "advanced"

    async def session(self, name: str) -> Session:
        return AdvancedDjangoSession(f"{self.prefix}-{name}", using=self.alias)
