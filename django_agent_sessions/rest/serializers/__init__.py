"""The serializers of requests and responses, which a project may extend."""

from .branches import BranchSerializer, ForkSerializer, SnapshotSerializer
from .feedback import FeedbackSerializer
from .messages import MessageSerializer, PartSerializer
from .sessions import (
    AgentSerializer,
    AgentStateSerializer,
    MultiAgentSerializer,
    MultiAgentStateSerializer,
    SessionChangeSerializer,
    SessionCreateSerializer,
    SessionRowSerializer,
    SessionSerializer,
    UsageSerializer,
)
from .sharing import ParticipantSerializer, SharedSessionSerializer, ShareLinkSerializer

__all__ = [
    "AgentSerializer",
    "AgentStateSerializer",
    "BranchSerializer",
    "FeedbackSerializer",
    "ForkSerializer",
    "MessageSerializer",
    "MultiAgentSerializer",
    "MultiAgentStateSerializer",
    "PartSerializer",
    "ParticipantSerializer",
    "SessionChangeSerializer",
    "SessionCreateSerializer",
    "SessionRowSerializer",
    "SessionSerializer",
    "ShareLinkSerializer",
    "SharedSessionSerializer",
    "SnapshotSerializer",
    "UsageSerializer",
]
