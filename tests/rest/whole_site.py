"""A site with all that the package offers over HTTP."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.urls import include, path

from django_agent_sessions.rest.chat.ai_sdk import Chat, ChatView, chat_urls


class Silent(ChatView):
    """A chat whose agent says nothing."""

    async def respond(self, chat: Chat) -> Any:
        events: tuple[Any, ...] = ()
        for event in events:
            yield event


urlpatterns = [
    path("admin/", admin.site.urls),
    path("api/", include("django_agent_sessions.rest.urls")),
    *chat_urls(Silent, "chat"),
    path("", include("django_agent_sessions.rest.chat.assistant_ui.urls")),
]
