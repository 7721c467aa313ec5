"""The viewer of a session: permissions, actions, links, and the record of what is read."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib.admin import helpers
from django.db.models import Exists, OuterRef
from django.http import Http404, HttpRequest, QueryDict
from django.urls import reverse
from django.utils import timezone

from django_agent_sessions import audit
from django_agent_sessions.admin.formatting import format_moment
from django_agent_sessions.admin.permissions import SessionPermission, may, require
from django_agent_sessions.db import bridge
from django_agent_sessions.models import (
    AuditEvent,
    Label,
    MessageFeedback,
    Note,
    RunLease,
    Session,
)
from django_agent_sessions.models.deletion import TOMBSTONE_NAMESPACE
from django_agent_sessions.models.permissions import REVIEWING
from django_agent_sessions.models.roles import owns
from django_agent_sessions.models.users import with_owners
from django_agent_sessions.queries.message_pages import MessagePreview

_PRESERVED_PARAMETERS = ("agent", "branch", "plain", "_changelist_filters")


@dataclass(frozen=True, slots=True)
class Viewer:
    """A user who views a session."""

    request: HttpRequest
    session: Session
    base_url: str
    """The common prefix of the URLs of the session's pages, with a trailing slash."""

    can_read: bool
    """Whether the viewer may read content."""

    can_redact: bool
    can_view_originals: bool
    can_export: bool
    can_change: bool
    """Whether the viewer may rewind, restore, and change branches."""

    can_fork: bool
    """Whether the viewer may fork the session."""

    can_delete_branches: bool
    """Whether the viewer may delete branches."""

    audit_url: str
    """URL of the session's audit events; empty if the viewer may not see them."""

    can_share: bool = False
    """Whether the viewer may add participants and create links."""

    can_review: bool = False
    """Whether the viewer may see and change notes, labels, state and assignee."""

    moment: Callable[[datetime, str], str] = field(
        default_factory=lambda: functools.cache(format_moment)
    )
    """Formats a time by a format or its name; charts and messages show the same times."""

    @property
    def using(self) -> str:
        """The alias of the write database of sessions and audit events."""
        # Not the alias of the row, which may be a read-only replica.
        return bridge.database()

    @property
    def is_owner(self) -> bool:
        """Whether the viewer owns the conversation; owners' reading is not recorded."""
        return owns(self.request.user, self.session)

    def query(self, **changes: Any) -> str:
        """Return a query string with the selected options, changed as given; None removes one."""
        query = QueryDict(mutable=True)
        for name in _PRESERVED_PARAMETERS:
            if self.request.GET.get(name):
                query[name] = self.request.GET[name]
        for name, value in changes.items():
            if value is None:
                query.pop(name, None)
            else:
                query[name] = str(value)
        return f"?{query.urlencode()}"

    @property
    def page(self) -> str:
        """The URL of the session's own page."""
        return f"{self.base_url}change/"

    @property
    def here(self) -> str:
        """The start of a link to a message, with the selected options; append ``at=``."""
        return self._link_prefix()

    @property
    def unfiltered_link_prefix(self) -> str:
        """The same for a message of any agent and branch; append ``at=`` or ``agent=``."""
        return self._link_prefix(agent=None, branch=None)

    @property
    def kept(self) -> str:
        """The query string of the selected options; empty if there are none."""
        query = self.query()
        return "" if query == "?" else query

    def _link_prefix(self, **changes: Any) -> str:
        query = self.query(**changes)
        return f"{self.page}{query}" + ("" if query == "?" else "&")

    def require_read(self) -> None:
        """Raise Http404 unless the viewer may read content."""
        if not self.can_read:
            raise Http404

    @property
    def is_running(self) -> bool:
        """Whether a run holds the session's lease."""
        return bool(getattr(self.session, "is_running", False))

    def record_window(self, rows: Sequence[MessagePreview], page: str = "messages") -> None:
        """Record that messages are about to be shown."""
        ends = {"first": str(rows[0].id), "last": str(rows[-1].id)} if rows else {}
        self.record(None, page=page, messages=len(rows), **ends)

    def record(self, target: UUID | None, **details: Any) -> None:
        """Record a reading, unless the content is hidden or the viewer is the owner."""
        if self.can_read and not self.is_owner:
            audit.record(
                AuditEvent.Action.READ,
                session=self.session.pk,
                target=target,
                actor=self.request.user,
                details=details,
                using=self.using,
            )


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
        hold=action if viewer.can_change and action in model_admin.get_actions(request) else "",
        delete_url=f"{viewer.base_url}delete/{query}" if may_delete else "",
        list_url=reverse(f"{model_admin.admin_site.name}:agent_sessions_session_changelist"),
    )


def get_viewer_or_404(model_admin: Any, request: HttpRequest, object_id: Any) -> Viewer:
    """Return the viewer of a session; raise Http404 if it is missing or not permitted."""
    require(request, SessionPermission.VIEW)
    try:
        key = object_id if isinstance(object_id, UUID) else UUID(str(object_id))
    except ValueError:
        raise Http404 from None
    title = () if may(request, SessionPermission.READ) else ("title",)
    rows = with_owners(model_admin.few(request, pk=key).using(bridge.database()))
    rated = Exists(MessageFeedback.objects.filter(session=OuterRef("pk")))
    leases = RunLease.objects.filter(session=OuterRef("pk"), expires_at__gt=timezone.now())
    rows = rows.defer("metadata", *title).annotate(is_rated=rated, is_running=Exists(leases))
    if may_review := may(request, *REVIEWING):
        rows = rows.select_related("review").annotate(
            has_notes=Exists(Note.objects.filter(session=OuterRef("pk"))),
            has_labels=Exists(Label.objects.filter(session=OuterRef("pk"))),
        )
    session = rows.first()
    if session is None or not model_admin.has_view_permission(request, session):
        raise Http404
    if session.namespace == TOMBSTONE_NAMESPACE:
        # A tombstone: some messages are deleted already, and the rest would be misleading.
        raise Http404
    name = f"{model_admin.admin_site.name}:agent_sessions_session_change"

    def can(*allowed: SessionPermission) -> bool:
        return may(request, *allowed, session=session)

    reads, changes = can(SessionPermission.READ), can(SessionPermission.CHANGE)
    return Viewer(
        request=request,
        session=session,
        base_url=reverse(name, args=[key]).removesuffix("change/"),
        can_read=reads,
        can_redact=reads and can(SessionPermission.REDACT),
        can_view_originals=reads and can(SessionPermission.VIEW_ORIGINAL),
        can_export=reads and can(SessionPermission.EXPORT),
        can_change=changes,
        can_fork=reads and changes and can(SessionPermission.ADD),
        can_delete_branches=changes and can(SessionPermission.DELETE),
        audit_url=_audit_url(model_admin, request, session),
        can_share=reads and can(SessionPermission.SHARE),
        can_review=may_review and can(*REVIEWING),
    )


def _audit_url(model_admin: Any, request: HttpRequest, session: Session) -> str:
    site = model_admin.admin_site
    # A project's own admin site may not have the audit trail.
    may_view = may(request, SessionPermission.VIEW_AUDIT, session=session)
    if not (may_view and site.is_registered(AuditEvent)):
        return ""
    return f"{reverse(f'{site.name}:agent_sessions_auditevent_changelist')}?session={session.pk}"
