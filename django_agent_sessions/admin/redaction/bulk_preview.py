"""The preview of a redaction of all sessions that match: its places in the most recent of them."""

from __future__ import annotations

from typing import Any, NamedTuple

from django.db.models import QuerySet
from django.http import Http404, HttpRequest

from django_agent_sessions.admin.permissions import reach
from django_agent_sessions.admin.transcript.viewers import Viewer, get_viewer_or_404
from django_agent_sessions.content.work_budget import limit_work
from django_agent_sessions.exceptions import (
    AgentSessionsError,
    SessionNotFoundError,
    WorkLimitError,
)
from django_agent_sessions.governance.redaction import (
    Scope,
    redact,
    request_budget,
)
from django_agent_sessions.governance.redaction.visibility import staff_visibility
from django_agent_sessions.models import Operation, Session
from django_agent_sessions.models.permissions import OPERATION_PERMISSIONS, REVIEWING
from django_agent_sessions.models.removal import REMOVABLE

from .preview import Group, count_places, group_places

MAX_SEARCHED = 20
MAX_PLACES = 5
"""The most places that are shown of a session."""


class SessionPreview(NamedTuple):
    """The places in one session."""

    viewer: Viewer
    title: str
    total: int
    shown: int
    groups: list[Group]


class BulkPreview:
    """What a redaction would change in the most recent sessions."""

    def __init__(self) -> None:
        self.most = MAX_SEARCHED
        self.searched = 0
        self.failed = 0
        """How many could not be searched, such as those whose key was destroyed."""
        self.sessions: list[SessionPreview] = []
        """Those with a match."""
        self.is_complete = True
        """Whether the search ended within its limits."""

    @property
    def total(self) -> int:
        return sum(each.total for each in self.sessions)


def preview_matches(
    model_admin: Any, request: HttpRequest, sessions: QuerySet[Session], scope: Scope
) -> BulkPreview:
    """Search the most recent sessions that would be redacted, and record what is read."""
    preview = BulkPreview()
    # As the operation does, which skips sessions under legal hold.
    sessions = reach(request, *OPERATION_PERMISSIONS[Operation.Kind.REDACT]).filter(sessions)
    keys = list(sessions.filter(REMOVABLE).values_list("pk", flat=True)[:MAX_SEARCHED])
    try:
        with limit_work(request_budget(staff=True)):
            for key in keys:
                _search(preview, model_admin, request, key, scope)
    except WorkLimitError:
        preview.is_complete = False
    return preview


def _search(
    preview: BulkPreview, model_admin: Any, request: HttpRequest, key: Any, scope: Scope
) -> None:
    try:
        viewer = get_viewer_or_404(model_admin, request, key)
        if not viewer.can_redact:
            return
        result = redact(
            viewer.session,
            scope,
            reason="",
            dry_run=True,
            visibility=staff_visibility(reach(request, *REVIEWING)),
            using=viewer.using,
        )
    except (Http404, SessionNotFoundError):
        # Deleted in the meantime, or not permitted: it is not redacted, either.
        return
    except WorkLimitError:
        raise
    except AgentSessionsError:
        preview.failed += 1
        return
    preview.searched += 1
    total = count_places(result)
    viewer.record(None, page="redact", hits=total)
    if total:
        page, title = result.hits[:MAX_PLACES], viewer.title
        groups = group_places(viewer, page)
        preview.sessions.append(SessionPreview(viewer, title, total, len(page), groups))
