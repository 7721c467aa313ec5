"""The viewer of a session: permissions, actions, links, pages, and the record of what is read."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.urls import URLPattern
from django.utils import timezone

from django_agent_sessions import audit
from django_agent_sessions.admin.formatting import format_moment, shown_title
from django_agent_sessions.admin.pages import admin_url, private_path, render
from django_agent_sessions.admin.permissions import SessionPermission, require, rights_of
from django_agent_sessions.db import bridge
from django_agent_sessions.models import (
    AuditEvent,
    HeldCopy,
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

    model_admin: Any
    request: HttpRequest
    session: Session
    using: str
    """The alias of the database of sessions and audit events, for reads too."""

    title: str
    """What pages call the session."""

    base_url: str
    """The common prefix of the URLs of the session's pages, with a trailing slash."""

    can_read: bool
    """Whether the viewer may read content."""

    can_redact: bool
    can_view_held_copies: bool
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

    def render(self, template: str, **context: Any) -> HttpResponse:
        own = {"viewer": self, "session": self.session, **context}
        return render(self.model_admin, self.request, template, **own)

    def listed(self) -> Any:
        """Return the sessions that the viewer may see, in the write database."""
        return self.model_admin.get_queryset(self.request).using(self.using)

    @property
    def is_running(self) -> bool:
        return bool(getattr(self.session, "is_running", False))

    def record_window(self, rows: Sequence[MessagePreview], page: str = "messages") -> None:
        ends = {"first": str(rows[0].id), "last": str(rows[-1].id)} if rows else {}
        self.record(None, page=page, messages=len(rows), **ends)

    @property
    def has_held_copies(self) -> bool:
        """Whether the user may see content that the session's legal hold keeps."""
        if not (self.session.legal_hold and self.can_view_held_copies):
            return False
        return HeldCopy.objects.using(self.using).filter(session=self.session).exists()

    def record(self, target: UUID | None, **details: Any) -> None:
        """Record a reading, unless the content is hidden or the viewer is the owner."""
        if self.can_read and not self.is_owner:
            audit.record_checked(
                AuditEvent.Action.READ,
                session=self.session.pk,
                target=target,
                actor=self.request.user,
                details=details,
                using=self.using,
            )


def session_actions(viewer: Viewer) -> dict[str, str]:
    """Return the permitted ones of the actions that hold, release or delete the session."""
    model_admin, request = viewer.model_admin, viewer.request
    is_held, actions = viewer.session.legal_hold, {}
    hold = "release_selected" if is_held else "hold_selected"
    if viewer.can_change and hold in model_admin.get_actions(request):
        actions["hold"] = hold
    if not is_held and model_admin.has_delete_permission(request, viewer.session):
        filters = model_admin.get_preserved_filters(request)
        actions["delete_url"] = f"{viewer.base_url}delete/" + (f"?{filters}" if filters else "")
    return actions


SessionPage = tuple[str, Callable[..., HttpResponseBase], str, str]
"""The route, the view and the name of a page, and what the viewer must be able to do."""


def session_path(
    model_admin: Any, route: str, view: Callable[..., HttpResponseBase], name: str, needs: str
) -> URLPattern:
    @functools.wraps(view)
    def page(request: HttpRequest, object_id: UUID, **kwargs: Any) -> HttpResponseBase:
        viewer = get_viewer_or_404(model_admin, request, object_id)
        if needs and not getattr(viewer, needs):
            raise Http404
        return view(viewer, **kwargs)

    return private_path(model_admin, f"<uuid:object_id>/{route}", page, f"session_{name}")


_PERMISSIONS = (
    *REVIEWING,
    SessionPermission.CHANGE,
    SessionPermission.ADD,
    SessionPermission.DELETE,
    SessionPermission.REDACT,
    SessionPermission.VIEW_HELD_COPIES,
    SessionPermission.EXPORT,
    SessionPermission.SHARE,
    SessionPermission.VIEW_AUDIT,
)
"""The permissions in one session that its pages depend on."""


def get_viewer_or_404(model_admin: Any, request: HttpRequest, object_id: Any) -> Viewer:
    """Return the viewer of a session; raise Http404 if it is missing or not permitted."""
    require(request, SessionPermission.VIEW)
    try:
        key = object_id if isinstance(object_id, UUID) else UUID(str(object_id))
    except ValueError:
        raise Http404 from None
    using, rights = bridge.database(), rights_of(request)
    may_review = bool(rights.reach(*REVIEWING))
    rows = _session_rows(
        model_admin.few(request, pk=key).using(using),
        readable=bool(rights.reach(SessionPermission.READ)),
        reviewable=may_review,
    )
    session = rows.first()
    if session is None or not model_admin.has_view_permission(request, session):
        raise Http404
    if session.namespace == TOMBSTONE_NAMESPACE:
        # A tombstone: some messages are deleted already, and the rest would be misleading.
        raise Http404
    allowed = rights.in_session(session, _PERMISSIONS)
    reads, changes = SessionPermission.READ in allowed, SessionPermission.CHANGE in allowed
    return Viewer(
        model_admin=model_admin,
        request=request,
        session=session,
        using=using,
        title=shown_title(session, readable=reads),
        base_url=admin_url(model_admin, "session_change", key).removesuffix("change/"),
        can_read=reads,
        can_redact=reads and SessionPermission.REDACT in allowed,
        can_view_held_copies=reads and SessionPermission.VIEW_HELD_COPIES in allowed,
        can_export=reads and SessionPermission.EXPORT in allowed,
        can_change=changes,
        can_fork=reads and changes and SessionPermission.ADD in allowed,
        can_delete_branches=changes and SessionPermission.DELETE in allowed,
        audit_url=_audit_url(model_admin, key) if SessionPermission.VIEW_AUDIT in allowed else "",
        can_share=reads and SessionPermission.SHARE in allowed,
        can_review=may_review and allowed.issuperset(REVIEWING),
    )


def _session_rows(few: Any, *, readable: bool, reviewable: bool) -> Any:
    """Return sessions with what their pages show of them beside the conversation."""
    rows = with_owners(few)
    rows = rows.with_display_title() if readable else rows.defer("title")
    rated = Exists(MessageFeedback.objects.filter(session=OuterRef("pk")))
    leases = RunLease.objects.filter(session=OuterRef("pk"), expires_at__gt=timezone.now())
    rows = rows.defer("metadata").annotate(is_rated=rated, is_running=Exists(leases))
    if not reviewable:
        return rows
    return rows.select_related("review").annotate(
        has_notes=Exists(Note.objects.filter(session=OuterRef("pk"))),
        has_labels=Exists(Label.objects.filter(session=OuterRef("pk"))),
    )


def _audit_url(model_admin: Any, key: UUID) -> str:
    # A project's own admin site may not have the audit trail.
    if not model_admin.admin_site.is_registered(AuditEvent):
        return ""
    return f"{admin_url(model_admin, 'auditevent_changelist')}?session={key}"
