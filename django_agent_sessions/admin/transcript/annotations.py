"""What a page shows with its messages: when and by whom they were redacted, and feedback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Count, Q
from django.utils.translation import gettext as _

from django_agent_sessions.admin.formatting import format_moment
from django_agent_sessions.content.dialects import displayable
from django_agent_sessions.models import AuditEvent, MessageFeedback
from django_agent_sessions.models.fields import CorruptPayload
from django_agent_sessions.models.users import user_names
from django_agent_sessions.queries.message_pages import MessagePreview

from .view_models import FeedbackViewModel
from .viewers import Viewer

MAX_FEEDBACK = 500
"""The most feedback that a page shows, the newest."""


_VALUES = {
    MessageFeedback.Value.GOOD: "good",
    MessageFeedback.Value.BAD: "bad",
    MessageFeedback.Value.NEUTRAL: "neutral",
}


def feedback_on(
    viewer: Viewer, rows: Sequence[MessagePreview]
) -> dict[UUID, list[FeedbackViewModel]]:
    """Read the feedback on messages, oldest first; no statement if the session has none."""
    # Annotated on the row of the viewer's session.
    if not rows or not getattr(viewer.session, "is_rated", True):
        return {}
    feedback = MessageFeedback.objects.using(viewer.using).filter(
        session=viewer.session, message__in=[row.id for row in rows]
    )
    newest = list(feedback.order_by("-pk")[:MAX_FEEDBACK])
    names = user_names({row.user for row in newest if row.user})
    found: dict[UUID, list[FeedbackViewModel]] = {}
    for row in reversed(newest):
        found.setdefault(row.message_id, []).append(_view_model(viewer, row, names))
    return found


def _view_model(viewer: Viewer, row: MessageFeedback, names: dict[str, str]) -> FeedbackViewModel:
    comment: Any = row.comment
    text = _("(damaged)") if isinstance(comment, CorruptPayload) else str(comment)
    user = names.get(row.user) or (_("deleted user %s") % row.user if row.user else "")
    return FeedbackViewModel(
        value=_VALUES[MessageFeedback.Value(row.value)],
        user=displayable(user),
        source=displayable(row.source),
        moment=row.updated_at,
        comment=displayable(text) if viewer.can_read else "",
        hidden=bool(text) and not viewer.can_read,
    )


@dataclass(frozen=True, slots=True)
class Redactions:
    """The audit events of the redactions of some messages."""

    events: Mapping[UUID, AuditEvent]
    """The last redaction of each message, by the key of the event."""

    counts: Mapping[UUID | None, int]
    """Number of redactions by message; ``None`` counts those of several messages."""

    def note(self, row: MessagePreview, *, reason: bool) -> str:
        """Return when and by whom a message was redacted, and if permitted why."""
        if row.redacted_at is None:
            return ""
        event = self.events.get(row.redaction) if row.redaction else None
        # A redaction of several messages does not record which: count it for each.
        times = self.counts.get(row.id, 0) + self.counts.get(None, 0)
        return redaction_note(row.redacted_at, event, reason=reason, last=times > 1)


def redactions(viewer: Viewer, rows: Sequence[MessagePreview]) -> Redactions:
    keys = {row.redaction for row in rows if row.redaction}
    if not keys:
        return Redactions({}, {})
    events = AuditEvent.objects.using(viewer.using)
    about = Q(target__isnull=True) | Q(target__in=[row.id for row in rows if row.redaction])
    counts = (
        events.filter(about, session=viewer.session.pk, action=AuditEvent.Action.REDACTED)
        .order_by()
        .values_list("target")
        .annotate(count=Count("pk"))
    )
    return Redactions(events.in_bulk(list(keys)), dict(counts))


def redaction_note(
    when: datetime, event: AuditEvent | None, *, reason: bool = True, last: bool = False
) -> str:
    """Return a sentence about when, by whom and why something was redacted."""
    # redacted_at is the time of the first redaction; the event is the last one.
    time = format_moment(event.created_at if event else when)
    if event is None:
        return _("Redacted on %(when)s.") % {"when": time}
    params = {"when": time, "who": event.actor or _("a program"), "why": event.reason}
    if reason and event.reason:
        if last:
            return _("Last redacted on %(when)s by %(who)s: %(why)s") % params
        return _("Redacted on %(when)s by %(who)s: %(why)s") % params
    if last:
        return _("Last redacted on %(when)s by %(who)s.") % params
    return _("Redacted on %(when)s by %(who)s.") % params
