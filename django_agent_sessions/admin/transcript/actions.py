"""The actions of a session's page that the viewer may use: legal hold and deletion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib.admin import helpers
from django.urls import reverse

from .viewers import Viewer


@dataclass(frozen=True, slots=True)
class SessionActions:
    """The permitted actions; an empty field is not permitted."""

    hold: str
    """The change list action that holds or releases the session."""

    delete_url: str
    list_url: str
    """URL that actions are posted to, without filters, which might exclude the session."""

    checkbox: str = helpers.ACTION_CHECKBOX_NAME

    def __bool__(self) -> bool:
        return bool(self.hold or self.delete_url)


def session_actions(model_admin: Any, viewer: Viewer) -> SessionActions:
    request, is_held = viewer.request, viewer.session.legal_hold
    action = "release_selected" if is_held else "hold_selected"
    filters = model_admin.get_preserved_filters(request)
    query = f"?{filters}" if filters else ""
    may_delete = model_admin.has_delete_permission(request, viewer.session) and not is_held
    return SessionActions(
        hold=action if action in model_admin.get_actions(request) else "",
        delete_url=f"{viewer.base_url}delete/{query}" if may_delete else "",
        list_url=reverse(f"{model_admin.admin_site.name}:agent_sessions_session_changelist"),
    )
