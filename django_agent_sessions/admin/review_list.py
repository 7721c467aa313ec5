"""Reviews in the list of sessions: a filter, and the data of a column."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet
from django.http import HttpRequest
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _

from django_agent_sessions.content.dialects import displayable
from django_agent_sessions.db import bridge
from django_agent_sessions.models import Label, Review, Session
from django_agent_sessions.models.permissions import REVIEWING

from .input_filters import InputFilter
from .permissions import reach


class ReviewFilter(InputFilter):
    """Sessions by state, assignee and label, for users who may review and among what they may."""

    title = _("review")
    parameter_name = "review"

    def __init__(self, request: HttpRequest, *args: Any) -> None:
        self.reviewable = reach(request, *REVIEWING)
        super().__init__(request, *args)

    @classmethod
    def inputs(cls) -> Mapping[str, Any]:
        return {"assignee": _("Assignee"), "label": _("Label")}

    def has_output(self) -> bool:
        """Without the permission, the filter is shown only where it is used, and matches nothing.

        Django would leave it out otherwise, and the list would have all sessions.
        """
        return self.is_permitted() or any(self.used_parameters.values())

    def is_permitted(self) -> bool:
        return bool(self.reviewable)

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, Any]]:
        whose = [("mine", _("Assigned to me")), ("unassigned", _("Unassigned"))]
        states = [(value, capfirst(label)) for value, label in Review.State.choices]
        return [*states, *whose]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Session]) -> QuerySet[Session]:
        value, (assignee, label) = self.value(), map(self.text, self.names())
        conditions = []
        if value in Review.State.values:
            conditions.append(_of_session(Review, state=value))
        elif value in ("mine", "unassigned"):
            key = str(request.user.pk) if value == "mine" else ""
            conditions.append(_of_session(Review, assignee_id=key))
        if assignee:
            conditions.append(_of_session(Review, assignee=assignee))
        if label:
            conditions.append(_of_session(Label, name=label))
        return self.reviewable.filter(queryset).filter(*conditions) if conditions else queryset


def _of_session(model: type[Review | Label], **columns: str) -> Exists:
    return Exists(model._default_manager.filter(session=OuterRef("pk"), **columns))


def reviews_of(request: HttpRequest, sessions: Collection[Session]) -> dict[Any, str]:
    """Return state and assignee of those sessions that the user may review, by their keys."""
    keys = reach(request, *REVIEWING).among(sessions)
    rows = Review.objects.using(bridge.database()).filter(session__in=keys) if keys else ()
    found = {row.session_id: (row.get_state_display(), row.assignee) for row in rows}
    return {key: displayable(": ".join(filter(None, words))) for key, words in found.items()}
