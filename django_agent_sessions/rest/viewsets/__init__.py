"""The viewsets of the API."""

from __future__ import annotations

from .agents import AgentViewSet, MultiAgentViewSet
from .branches import BranchMessageViewSet, BranchViewSet, RewindViewSet, SnapshotViewSet
from .messages import ConversationViewSet, MessageViewSet
from .sessions import SessionViewSet

__all__ = [
    "AgentViewSet",
    "BranchMessageViewSet",
    "BranchViewSet",
    "ConversationViewSet",
    "MessageViewSet",
    "MultiAgentViewSet",
    "RewindViewSet",
    "SessionViewSet",
    "SnapshotViewSet",
]
