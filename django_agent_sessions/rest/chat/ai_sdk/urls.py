"""The URLs of a chat."""

from __future__ import annotations

from django.urls import URLPattern, path

from django_agent_sessions.rest import throttles

from .views import CHAT, MESSAGES, STOP, STREAM, ChatView

_READ = ["get", "options"]
_WRITE = ["post", "options"]


def chat_urls(view: type[ChatView], prefix: str, *, name: str = "chat") -> list[URLPattern]:
    """Return the URLs of a chat that ``useChat`` expects.

    Args:
        view: The view of the chat.
        prefix: The path without a slash at its end, which is ``api`` in the client.
        name: The name of the first URL, and the prefix of the others: ``name``, ``name-stream``,
            ``name-stop``, ``name-messages``.

    Returns:
        ``POST prefix`` answers a message; ``GET prefix/{id}/stream`` resumes an answer;
        ``POST prefix/{id}/stop`` stops one; ``GET prefix/{id}/messages`` is the transcript.
    """
    base = prefix.rstrip("/")
    shared = {"throttle_scope": throttles.ALL}
    return [
        path(base, view.as_view(route=CHAT, http_method_names=_WRITE), name=name),
        path(
            f"{base}/<path:chat>/stream",
            view.as_view(route=STREAM, http_method_names=_READ, **shared),
            name=f"{name}-stream",
        ),
        path(
            f"{base}/<path:chat>/stop",
            view.as_view(route=STOP, http_method_names=_WRITE, **shared),
            name=f"{name}-stop",
        ),
        path(
            f"{base}/<path:chat>/messages",
            view.as_view(route=MESSAGES, http_method_names=_READ, **shared),
            name=f"{name}-messages",
        ),
    ]
