"""What may be done with a session from its page, as far as the viewer may: hold it, delete it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib.admin import helpers
from django.urls import reverse

from .viewers import Viewer


@dataclass(frozen=True, slots=True)
class Steps:
    """Ways to go on from the page; what is empty is not allowed."""

    hold: str
    """The action of the list that holds or releases the session, and asks for a reason first."""

    delete_url: str
    list_url: str
    """Where an action is posted to: the list without filters, which might hide the session."""

    checkbox: str = helpers.ACTION_CHECKBOX_NAME

    def __bool__(self) -> bool:
        return bool(self.hold or self.delete_url)


def steps(model_admin: Any, viewer: Viewer) -> Steps:
    """Tells what the viewer may do with a session."""
    request, held = viewer.request, viewer.session.legal_hold
    action = "release_selected" if held else "hold_selected"
    filters = model_admin.get_preserved_filters(request)
    kept = f"?{filters}" if filters else ""
    deletes = model_admin.has_delete_permission(request, viewer.session) and not held
    return Steps(
        hold=action if action in model_admin.get_actions(request) else "",
        delete_url=f"{viewer.base}delete/{kept}" if deletes else "",
        list_url=reverse(f"{model_admin.admin_site.name}:agent_sessions_session_changelist"),
    )
