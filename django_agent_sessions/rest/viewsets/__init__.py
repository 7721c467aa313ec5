"""The views of the API: sessions, their agents and orchestrators, and messages."""

from __future__ import annotations

from .agents import AgentViewSet, MultiAgentViewSet
from .conversations import ConversationViewSet
from .messages import MessageViewSet
from .sessions import SessionViewSet

__all__ = [
    "AgentViewSet",
    "ConversationViewSet",
    "MessageViewSet",
    "MultiAgentViewSet",
    "SessionViewSet",
]
