"""The viewsets of the API."""

from __future__ import annotations

from .agents import AgentViewSet, MultiAgentViewSet
from .branches import BranchMessageViewSet, BranchViewSet, RewindViewSet, SnapshotViewSet
from .feedback import FeedbackViewSet, MessageFeedbackView
from .messages import ConversationViewSet, MessageViewSet
from .sessions import SessionViewSet
from .sharing import ParticipantViewSet, ShareLinkViewSet

__all__ = [
    "AgentViewSet",
    "BranchMessageViewSet",
    "BranchViewSet",
    "ConversationViewSet",
    "FeedbackViewSet",
    "MessageFeedbackView",
    "MessageViewSet",
    "MultiAgentViewSet",
    "ParticipantViewSet",
    "RewindViewSet",
    "SessionViewSet",
    "ShareLinkViewSet",
    "SnapshotViewSet",
]
