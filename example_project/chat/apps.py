"""The chat application."""

from __future__ import annotations

from django.apps import AppConfig


class ChatConfig(AppConfig):
    """It has no models of its own: conversations are agent sessions."""

    name = "example_project.chat"
    label = "chat"
