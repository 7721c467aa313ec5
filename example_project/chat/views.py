"""The page of the chat. It is the same for all chats: what is in them, it asks the API for."""

from __future__ import annotations

from uuid import UUID

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_safe

from .answers import AGENTS

NIL = UUID(int=0)
"""Stands for the id of a chat in an address."""

IDEAS = (
    "What is the weather in Lisbon?",
    "Show me a weather map of Oslo",
    "My name is Ada. Which appointments do I have on Friday?",
    "Tell me a story",
)
"""In English, because the offline models understand nothing else."""


@require_safe
@login_required
@never_cache
# The page sends it with each request that changes something.
@ensure_csrf_cookie
def page(request: HttpRequest, pk: UUID | None = None) -> HttpResponse:
    """Shows the page; which chat is open, its address says."""
    limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE or 0
    context = {
        "agents": AGENTS,
        "ideas": IDEAS,
        "nil": NIL,
        "api": reverse("agent_sessions_api:session-list").removesuffix("sessions/"),
        "stream": reverse("ai_sdk:chat"),
        # Base64, and some room for the words.
        "upload_limit": limit // 4 * 3 - 64 * 1024,
    }
    return render(request, "chat/page.html", context)
