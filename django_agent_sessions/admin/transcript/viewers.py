"""Who looks at which session, what they may see of it, and the record that they saw it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.http import Http404, HttpRequest, QueryDict
from django.urls import reverse

from django_agent_sessions import audit, bridge
from django_agent_sessions.admin.permissions import Allowed, may, require
from django_agent_sessions.batches import DOOMED
from django_agent_sessions.models import AuditEvent, Session
from django_agent_sessions.windows import Row

_KEPT = ("agent", "branch", "plain", "_changelist_filters")


@dataclass(frozen=True, slots=True)
class Viewer:
    """A user in front of a session."""

    request: HttpRequest
    session: Session
    base: str
    """The URL of the session's pages, with a slash at its end."""

    reads: bool
    """Whether what was said may be shown."""

    redacts: bool
    sees_originals: bool
    exports: bool
    changes: bool
    """Whether the conversation may be brought back in time, and its branches changed."""

    forks: bool
    """Whether a copy may be made of what was said."""

    drops: bool
    """Whether branches may be deleted."""

    audit_url: str
    """The session's audit events; empty for who may not see them."""

    @property
    def using(self) -> str:
        """The alias of the sessions' database: where the store writes, and the audit trail is."""
        # Not where the row was read: a router may read from a replica, which is never written.
        return bridge.database()

    @property
    def is_owner(self) -> bool:
        """Whether it is the viewer's own conversation, whose reading is not recorded."""
        return self.session.owner_id is not None and self.session.owner_id == self.request.user.pk

    def query(self, **changes: Any) -> str:
        """Makes the query of a link that keeps what the viewer chose."""
        query = QueryDict(mutable=True)
        for name in _KEPT:
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
        return f"{self.base}change/"

    @property
    def here(self) -> str:
        """How a link begins that shows one of the messages; ``at=`` and its key go on."""
        return self._begun()

    @property
    def anywhere(self) -> str:
        """The same, for a message of any agent, or for ``agent=``."""
        return self._begun(agent=None, branch=None)

    @property
    def kept(self) -> str:
        """The query that keeps what was chosen, if anything was."""
        query = self.query()
        return "" if query == "?" else query

    def _begun(self, **changes: Any) -> str:
        query = self.query(**changes)
        return f"{self.page}{query}" + ("" if query == "?" else "&")

    def must_read(self) -> None:
        """Hides a page from whoever may not read what was said."""
        if not self.reads:
            raise Http404

    def record_window(self, rows: Sequence[Row]) -> None:
        """Records that messages are about to be shown."""
        # Also where there are none: titles, states and metadata stand beside them.
        ends = {"first": str(rows[0].id), "last": str(rows[-1].id)} if rows else {}
        self.record(None, page="messages", messages=len(rows), **ends)

    def record(self, target: UUID | None, **details: Any) -> None:
        """Records that something is about to be shown, unless it is not read or one's own."""
        if self.reads and not self.is_owner:
            audit.record(
                AuditEvent.Action.READ,
                session=self.session.pk,
                target=target,
                actor=self.request.user,
                details=details,
                using=self.using,
            )


def view(model_admin: Any, request: HttpRequest, object_id: Any) -> Viewer:
    """Opens a session."""
    require(request, Allowed.VIEW)
    try:
        key = object_id if isinstance(object_id, UUID) else UUID(str(object_id))
    except ValueError:
        raise Http404 from None
    reads, changes = may(request, Allowed.READ), may(request, Allowed.CHANGE)
    rows = model_admin.get_queryset(request).using(bridge.database()).select_related("owner")
    session = rows.defer("metadata", *(() if reads else ("title",))).filter(pk=key).first()
    if session is None or not model_admin.has_view_permission(request, session):
        raise Http404
    if session.namespace == DOOMED:
        # Some of it is deleted already, and nobody takes the rest for the whole.
        raise Http404
    name = f"{model_admin.admin_site.name}:agent_sessions_session_change"
    return Viewer(
        request=request,
        session=session,
        base=reverse(name, args=[key]).removesuffix("change/"),
        reads=reads,
        redacts=reads and may(request, Allowed.REDACT),
        sees_originals=reads and may(request, Allowed.VIEW_ORIGINAL),
        exports=reads and may(request, Allowed.EXPORT),
        changes=changes,
        forks=reads and changes and may(request, Allowed.ADD),
        drops=changes and may(request, Allowed.DELETE),
        audit_url=_audit_url(model_admin, request, key),
    )


def _audit_url(model_admin: Any, request: HttpRequest, session: UUID) -> str:
    site = model_admin.admin_site
    # A site of the project's own need not have the audit trail.
    if not (may(request, Allowed.VIEW_AUDIT) and site.is_registered(AuditEvent)):
        return ""
    return f"{reverse(f'{site.name}:agent_sessions_auditevent_changelist')}?session={session}"
