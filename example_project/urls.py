"""The example's site: the chat, its login, the APIs, and Django's admin."""

from __future__ import annotations

from django.conf import settings
from django.contrib import admin
from django.contrib.auth.views import LoginView, LogoutView
from django.urls import include, path

from django_agent_sessions.rest.chat.ai_sdk import chat_urls

from .chat.answers import Answers
from .token_view import TokenView

urlpatterns = [
    path("", include("example_project.chat.urls")),
    path(
        "login/",
        LoginView.as_view(
            redirect_authenticated_user=True,
            extra_context={"demo_login": getattr(settings, "DEMO_LOGIN", "")},
        ),
        name="login",
    ),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("admin/", admin.site.urls),
    path("api/agent-sessions/", include("django_agent_sessions.rest.urls")),
    path("api/ai-sdk/", include((chat_urls(Answers, "chat"), "ai_sdk"))),
    path("api/token/", TokenView.as_view(), name="token"),
    path("api/assistant-ui/", include("django_agent_sessions.rest.chat.assistant_ui.urls")),
]
