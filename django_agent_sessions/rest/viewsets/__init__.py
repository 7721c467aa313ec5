"""The viewsets of the API."""

from __future__ import annotations

from .agents import AgentViewSet, MultiAgentViewSet
from .branches import BranchMessageViewSet, BranchViewSet, RewindViewSet
from .messages import MessageViewSet
from .session_messages import ConversationViewSet
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
