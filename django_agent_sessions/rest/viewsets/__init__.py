"""The viewsets of the API."""

from __future__ import annotations

from .agents import AgentViewSet, MultiAgentViewSet
from .branches import BranchMessageViewSet, BranchViewSet, RewindViewSet
from .conversations import ConversationViewSet
from .messages import MessageViewSet
from .sessions import SessionViewSet
from .snapshots import SnapshotViewSet

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
