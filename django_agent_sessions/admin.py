"""Django's own admin: everything can be looked at, nothing changed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.http import HttpRequest

from . import transcripts
from .fields import CorruptPayload, ExactJSONField
from .models import Session, SessionAgent, SessionMessage, SessionMultiAgent

if TYPE_CHECKING:
    # Only the type checker knows whose admin it is.
    _ModelAdmin = admin.ModelAdmin[Any]
else:
    _ModelAdmin = admin.ModelAdmin


class ReadOnlyAdmin(_ModelAdmin):
    """An admin that only shows: the store is the one writer."""

    show_full_result_count = False

    def get_object(self, request: HttpRequest, object_id: str, from_field: Any = None) -> Any:
        """Finds the row to show, with its payloads as text that a page can carry."""
        row = super().get_object(request, object_id, from_field)
        if row is not None:
            for field in row._meta.concrete_fields:
                if isinstance(field, ExactJSONField):
                    setattr(row, field.attname, _shown(getattr(row, field.attname)))
        return row

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Nobody adds."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody changes."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody deletes here; a user can be deleted together with the sessions it owns."""
        page = request.resolver_match
        if page is None or (page.url_name or "").startswith(self.opts.app_label):
            return False
        return super().has_delete_permission(request, obj)


def _shown(payload: Any) -> Any:
    if payload is None or isinstance(payload, CorruptPayload):
        return payload
    text = json.dumps(payload, ensure_ascii=False, indent=1, default=_without_bytes)
    return transcripts.displayable(text)


def _without_bytes(value: Any) -> str:
    return f"<{len(value)} bytes>"


@admin.register(Session)
class SessionAdmin(ReadOnlyAdmin):
    """Sessions, the most recently active first."""

    list_display = (
        "__str__",
        "session_id",
        "namespace",
        "owner",
        "message_count",
        "input_tokens",
        "output_tokens",
        "last_activity_at",
        "legal_hold",
    )
    list_select_related = ("owner",)
    list_filter = ("legal_hold", "last_activity_at")
    search_fields = ("=session_id", "title")


@admin.register(SessionAgent)
class SessionAgentAdmin(ReadOnlyAdmin):
    """Agents of sessions."""

    list_display = ("agent_id", "session", "dialect", "updated_at")
    list_select_related = ("session",)
    list_filter = ("dialect",)


@admin.register(SessionMessage)
class SessionMessageAdmin(ReadOnlyAdmin):
    """Messages of agents."""

    list_display = (
        "message_id",
        "agent",
        "session",
        "role",
        "input_tokens",
        "output_tokens",
        "created_at",
        "redacted_at",
    )
    list_select_related = ("agent", "session")
    ordering = ("-id",)


@admin.register(SessionMultiAgent)
class SessionMultiAgentAdmin(ReadOnlyAdmin):
    """Orchestrators of sessions."""

    list_display = ("multi_agent_id", "session", "kind", "updated_at")
    list_select_related = ("session",)
