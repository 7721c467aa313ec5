"""The URLs that assistant-ui's client requests, without a slash at the end."""

from __future__ import annotations

from django.urls import path

from django_agent_sessions.rest import converters  # noqa: F401 - registers the converter

from .views import FeedbackView, MessagesView, MessageView, ThreadsView, ThreadView, TitleView

app_name = "agent_sessions_assistant_ui"
urlpatterns = [
    path("v1/threads", ThreadsView.as_view(), name="threads"),
    path("v1/threads/<agent_sessions_uuid:thread>", ThreadView.as_view(), name="thread"),
    path(
        "v1/threads/<agent_sessions_uuid:thread>/messages", MessagesView.as_view(), name="messages"
    ),
    path(
        "v1/threads/<agent_sessions_uuid:thread>/messages/<path:message>/feedback",
        FeedbackView.as_view(),
        name="feedback",
    ),
    path(
        "v1/threads/<agent_sessions_uuid:thread>/messages/<path:message>",
        MessageView.as_view(),
        name="message",
    ),
    path("v1/runs/stream", TitleView.as_view(), name="title"),
]
