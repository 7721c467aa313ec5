"""Who answers in a chat: the agent that its session names, as a stream."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext_lazy as _
from rest_framework.exceptions import APIException

from django_agent_sessions.db import bridge
from django_agent_sessions.rest.chat.ai_sdk import Chat, ChatView
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.records import SessionRecord

from . import openai_agents, strands_agents

AGENTS = {strands_agents.KIND: _("Strands agent"), openai_agents.KIND: _("OpenAI agent")}
"""Whom one can talk to: what the metadata of a session say, and what people read."""


class NobodyAnswersError(APIException):
    """The session is one that is only shown, such as that of a graph."""

    status_code = 409
    default_code = "nobody_answers"
    default_detail = "Nobody answers in this conversation."


class Answers(ChatView):
    """Answers by Strands or by the OpenAI Agents SDK; by Strands, if the session does not say."""

    async def accept(self, chat: Chat) -> None:
        """Refuses where nobody answers, before anything is streamed.

        Raises:
            NobodyAnswersError: The session is only shown.
        """
        if await self._kind(chat) not in AGENTS:
            raise NobodyAnswersError

    async def respond(self, chat: Chat) -> Any:
        """Makes the answer."""
        if await self._kind(chat) == openai_agents.KIND:
            return openai_agents.stream(
                chat.session_id,
                chat.openai_input,
                owner=chat.owner,
                namespace=chat.namespace,
                scope=chat.scope,
            )
        agent = await strands_agents.aconcierge(
            chat.session_id, owner=chat.owner, namespace=chat.namespace, scope=chat.scope
        )
        return agent.stream_async(chat.strands_input, cancel_signal=chat.stopping)

    async def _kind(self, chat: Chat) -> str:
        session = await bridge.run_async(lambda: _read(chat), using=self.using)
        return str(session.metadata.get("agent", strands_agents.KIND))


def _read(chat: Chat) -> SessionRecord:
    return SessionStore(owner=chat.owner, namespace=chat.namespace, scope=chat.scope).get(
        chat.session_id
    )
