"""The feedback on the messages of a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.utils.translation import gettext as _

from django_agent_sessions.admin.user_names import user_names
from django_agent_sessions.content.dialects import displayable
from django_agent_sessions.models import MessageFeedback
from django_agent_sessions.models.fields import CorruptPayload
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
