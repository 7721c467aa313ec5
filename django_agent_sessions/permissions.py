"""The permissions of the app label ``agent_sessions``.

Finding sessions and seeing their figures takes Django's ``view_session``; deleting them
``delete_session``; a legal hold, and going back in time, ``change_session``; a fork ``add_session``
besides. What was said has permissions of its own.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from .models import Session


class Allowed(StrEnum):
    """The permissions, by their code names."""

    VIEW = "view_session"
    ADD = "add_session"
    CHANGE = "change_session"
    DELETE = "delete_session"
    READ = "read_transcript"
    REDACT = "redact"
    VIEW_ORIGINAL = "view_original"
    VIEW_STATE = "view_sessionagent"
    EXPORT = "export"
    VIEW_AUDIT = "view_auditevent"
    VIEW_USAGE = "view_usagerollup"


def may(user: Any, *allowed: Allowed) -> bool:
    """Tells whether a user has all of these permissions."""
    label = Session._meta.app_label
    return bool(user.has_perms([f"{label}.{permission}" for permission in allowed]))
