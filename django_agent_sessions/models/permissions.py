"""The permissions of the app label ``agent_sessions``."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from django_agent_sessions.models import Operation


class SessionPermission(StrEnum):
    """The codenames of the permissions."""

    VIEW = "view_session"
    """Find sessions, and see their ids, owners, times and figures."""

    ADD = "add_session"
    """With ``change_session`` and ``read_transcript``: fork sessions."""

    CHANGE = "change_session"
    """Place and release legal holds; rewind; restore branches and snapshots."""

    DELETE = "delete_session"
    """Delete sessions."""

    READ = "read_transcript"
    """Read content: messages, titles, metadata, states. Without it, content is masked."""

    RATE = "add_messagefeedback"
    """Rate messages."""

    REDACT = "redact"
    """Redact content that the user may read."""

    VIEW_HELD_COPIES = "view_held_copies"
    """View what was overwritten under legal hold, after entering a reason."""

    VIEW_STATE = "view_sessionagent"
    """Read the states of agents in the API."""

    EXPORT = "export"
    """Export content that the user may read."""

    REVIEW = "review_session"
    """With ``view_session`` and ``read_transcript``: see and change notes, labels, and the state
    and assignee of a review."""

    SHARE = "share"
    """Add participants to sessions, and create links."""

    VIEW_AUDIT = "view_auditevent"
    """See the audit trail, which contains no content."""

    VIEW_USAGE = "view_usagerollup"
    """See the usage page."""

    VIEW_OPERATIONS = "view_operation"
    """See operations on all matching sessions that other users started."""

    CHANGE_OPERATIONS = "change_operation"
    """With ``view_operation``: cancel and continue operations that other users started."""


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
