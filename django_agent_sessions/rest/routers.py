"""The router of the API."""

from __future__ import annotations

from typing import Any, ClassVar

from django.urls import path
from rest_framework.routers import SimpleRouter

from . import converters  # noqa: F401 - registers the converters of the paths
from .events import SessionEventsView
from .shared import SharedMediaView, SharedSessionView
from .viewsets import (
    AgentViewSet,
    BranchMessageViewSet,
    BranchViewSet,
    ConversationViewSet,
    FeedbackViewSet,
    MessageFeedbackView,
    MessageViewSet,
    MultiAgentViewSet,
    ParticipantViewSet,
    RewindViewSet,
    SessionViewSet,
    ShareLinkViewSet,
    SnapshotViewSet,
)

_OF_SESSION = "sessions/<agent_sessions_uuid:session>"
# By its primary key: an agent's id may be any text, which would swallow the rest of the path.
_OF_AGENT = "agents/<agent_sessions_uuid:agent_key>"


class SessionRouter(SimpleRouter):
    """The router of the API.

    A subclass, which ``AGENT_SESSIONS["ROUTER"]`` chooses, names the views that a project has
    changed::

        class Router(SessionRouter):
            sessions = MySessionViewSet
    """

    sessions: ClassVar[type[Any]] = SessionViewSet
    agents: ClassVar[type[Any]] = AgentViewSet
    multi_agents: ClassVar[type[Any]] = MultiAgentViewSet
    conversations: ClassVar[type[Any]] = ConversationViewSet
    messages: ClassVar[type[Any]] = MessageViewSet
    rewinds: ClassVar[type[Any]] = RewindViewSet
    branches: ClassVar[type[Any]] = BranchViewSet
    branch_messages: ClassVar[type[Any]] = BranchMessageViewSet
    snapshots: ClassVar[type[Any]] = SnapshotViewSet
    feedback: ClassVar[type[Any]] = FeedbackViewSet
    message_feedback: ClassVar[type[Any]] = MessageFeedbackView
    events: ClassVar[type[Any]] = SessionEventsView
    participants: ClassVar[type[Any]] = ParticipantViewSet
    share_links: ClassVar[type[Any]] = ShareLinkViewSet
    shared: ClassVar[type[Any]] = SharedSessionView
    shared_media: ClassVar[type[Any]] = SharedMediaView

    def __init__(self, trailing_slash: bool = True) -> None:
        super().__init__(trailing_slash=trailing_slash, use_regex_path=False)
        self.register("sessions", self.sessions, basename="session")
        self.register(f"{_OF_SESSION}/agents", self.agents, basename="agent")
        self.register(f"{_OF_SESSION}/multi-agents", self.multi_agents, basename="multi-agent")
        self.register(f"{_OF_SESSION}/messages", self.conversations, basename="conversation")
        self.register(f"{_OF_SESSION}/feedback", self.feedback, basename="feedback")
        self.register(f"{_OF_SESSION}/participants", self.participants, basename="participant")
        self.register(f"{_OF_SESSION}/links", self.share_links, basename="share-link")
        self.register("messages", self.messages, basename="message")
        self.register("agents", self.rewinds, basename="rewind")
        self.register(f"{_OF_AGENT}/branches", self.branches, basename="branch")
        self.register(
            f"{_OF_AGENT}/branches/<agent_sessions_branch:number>/messages",
            self.branch_messages,
            basename="branch-message",
        )
        self.register(f"{_OF_AGENT}/snapshots", self.snapshots, basename="snapshot")

    def get_urls(self) -> list[Any]:
        """Return the URLs of the viewsets, and of the views that are no viewsets."""
        slash = self.trailing_slash
        events = f"{_OF_SESSION}/events{slash}"
        feedback = f"messages/<agent_sessions_uuid:message>/feedback{slash}"
        return [
            *super().get_urls(),
            path(events, self.events.as_view(), name="session-events"),
            path(feedback, self.message_feedback.as_view(), name="message-feedback"),
            path(
                f"shared/<str:token>{slash}",
                self.shared.as_view({"get": "retrieve"}),
                name="shared",
            ),
            path(
                f"shared/<str:token>/messages/<agent_sessions_uuid:message>/media{slash}",
                self.shared_media.as_view(),
                name="shared-media",
            ),
        ]
