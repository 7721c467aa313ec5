"""The permissions of the app label ``agent_sessions``.

* ``view_session``: list sessions and see their figures;
* ``change_session``: legal hold, rewind;
* ``add_session`` and ``change_session``: fork;
* ``delete_session``: delete sessions;
* ``add_messagefeedback``: rate messages;
* ``review_session``: notes, labels, state and assignee of a review;
* ``share``: add participants, and create links.

Reading the content of messages has permissions of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from django_agent_sessions.models import Operation, Session


class SessionPermission(StrEnum):
    """The codenames of the permissions."""

    VIEW = "view_session"
    ADD = "add_session"
    CHANGE = "change_session"
    DELETE = "delete_session"
    READ = "read_transcript"
    RATE = "add_messagefeedback"
    REDACT = "redact"
    VIEW_ORIGINAL = "view_original"
    VIEW_STATE = "view_sessionagent"
    EXPORT = "export"
    REVIEW = "review_session"
    SHARE = "share"
    VIEW_AUDIT = "view_auditevent"
    VIEW_USAGE = "view_usagerollup"
    VIEW_OPERATIONS = "view_operation"


_P, _Kind = SessionPermission, Operation.Kind

OPERATION_PERMISSIONS: Final[Mapping[str, tuple[SessionPermission, ...]]] = {
    _Kind.EXPORT: (_P.VIEW, _P.READ, _P.EXPORT),
    _Kind.HOLD: (_P.VIEW, _P.CHANGE),
    _Kind.RELEASE: (_P.VIEW, _P.CHANGE),
    _Kind.REDACT: (_P.VIEW, _P.READ, _P.REDACT),
    _Kind.DELETE: (_P.VIEW, _P.DELETE),
}
"""What an operation on all matches requires in each of the sessions."""


REVIEWING = (SessionPermission.VIEW, SessionPermission.READ, SessionPermission.REVIEW)
"""What it takes to see and change notes, labels, states and assignees."""


def has_permissions(user: Any, *allowed: SessionPermission) -> bool:
    """Return whether a user has all of these permissions."""
    label = Session._meta.app_label
    return bool(user.has_perms([f"{label}.{permission}" for permission in allowed]))
