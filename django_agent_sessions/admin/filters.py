"""Filters of the list of sessions. They do not count rows or scan the table for their choices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, ClassVar

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db import router
from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery, Value
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from django_agent_sessions.content import dialects
from django_agent_sessions.content.dialects import displayable
from django_agent_sessions.models import MessageFeedback, RunLease, Session, SessionAgent

from .input_filters import ActivityFilter, CostFilter, InputFilter, MetadataFilter
from .permissions import SessionPermission, reach
from .review_list import ReviewFilter

NAMESPACES = 20
"""The most namespaces that the filter lists."""


def reject_nul(parameters: Mapping[str, Sequence[str]]) -> None:
    """Reject NUL characters, which PostgreSQL cannot process."""
    if any("\x00" in value for values in parameters.values() for value in values):
        raise IncorrectLookupParameters


class FrameworkFilter(admin.SimpleListFilter):
    """Sessions with an agent of a framework."""

    title = _("framework")
    parameter_name = "framework"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, Any]]:
        return dialects.labels().items()

    def queryset(self, request: HttpRequest, queryset: QuerySet[Session]) -> QuerySet[Session]:
        if self.value() is None:
            return queryset
        return queryset.filter(
            Exists(SessionAgent.objects.filter(session=OuterRef("pk"), dialect=self.value()))
        )


class AgentFilter(InputFilter):
    """Sessions with an agent of an id."""

    title = _("agent")
    parameter_name = "by_agent"

    @classmethod
    def inputs(cls) -> Mapping[str, Any]:
        return {"agent": _("Agent’s id")}

    def queryset(self, request: HttpRequest, queryset: QuerySet[Session]) -> QuerySet[Session]:
        name = self.text("agent")
        agents = SessionAgent.objects.filter(session=OuterRef("pk"), agent_id=name)
        return queryset.filter(Exists(agents)) if name else queryset


class NamespaceFilter(admin.SimpleListFilter):
    """Sessions of a namespace."""

    title = _("namespace")
    parameter_name = "namespace"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, Any]]:
        """Return the first namespaces and the selected one, or nothing if there is only one."""
        names = [*islice(model_admin.get_queryset(request).namespaces(), NAMESPACES)]
        selected = self.used_parameters.get(self.parameter_name)
        if selected is not None and selected not in names:
            names.append(selected)
        elif len(names) < 2 and selected is None:
            return []
        return [(name, displayable(name) or _("(none)")) for name in names]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Session]) -> QuerySet[Session]:
        value = self.value()
        if value is None:
            return queryset
        return queryset.filter(namespace=value)


class HasOwnerFilter(admin.SimpleListFilter):
    """Sessions with or without an owner."""

    title = _("owner")
    parameter_name = "owned"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, Any]]:
        return [("yes", _("Has an owner")), ("no", _("Has no owner"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Session]) -> QuerySet[Session]:
        if self.value() not in {"yes", "no"}:
            return queryset
        return queryset.filter(owner__isnull=self.value() == "no")


class OwnerFilter(admin.SimpleListFilter):
    """Sessions of one user, to which a link in the list leads."""

    title = _("this owner")
    parameter_name = "owner"
    owner: Any = None

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, Any]]:
        """Return only the selected user."""
        selected = self.used_parameters.get(self.parameter_name)
        if selected is None:
            return []
        users = get_user_model()
        rows = users._default_manager.using(router.db_for_read(users))
        try:
            self.owner = rows.filter(pk=selected).first()
            # Names of other users are shown only with a session of theirs.
            everything = reach(request, SessionPermission.VIEW).is_everything
            sessions = model_admin.get_queryset(request).filter(owner=selected)
            self.owner = self.owner if everything or sessions.exists() else None
        except (ValueError, ValidationError, OverflowError) as error:
            raise IncorrectLookupParameters(error) from error
        return [(selected, displayable(self.owner.get_username()) if self.owner else selected)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Session]) -> QuerySet[Session]:
        if self.value() is None:
            return queryset
        return queryset.none() if self.owner is None else queryset.filter(owner=self.owner.pk)


class FeedbackFilter(admin.SimpleListFilter):
    """Sessions by the feedback on their messages."""

    title = _("feedback")
    parameter_name = "feedback"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, Any]]:
        return [
            ("bad", _("Bad")),
            ("good", _("Good")),
            ("any", pgettext_lazy("feedback", "Any")),
            ("none", pgettext_lazy("feedback", "None")),
        ]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Session]) -> QuerySet[Session]:
        match self.value():
            case "bad":
                return queryset.filter(has_feedback(MessageFeedback.Value.BAD))
            case "good":
                return queryset.filter(has_feedback(MessageFeedback.Value.GOOD))
            case "any":
                return queryset.filter(has_feedback())
            case "none":
                return queryset.filter(~has_feedback())
        return queryset


def has_feedback(*values: int) -> Exists:
    """Return the condition that a session has feedback, or feedback with one of these values."""
    rows = MessageFeedback.objects.filter(session=OuterRef("pk"))
    return Exists(rows.filter(value__in=values) if values else rows)


def first_feedback(value: int) -> Subquery:
    """Return the key of feedback with this value on a session, if there is some.

    Without ``Exists``, of which PostgreSQL would read all feedback of this value for a page.
    """
    rows = MessageFeedback.objects.filter(session=OuterRef("pk"), value=value)
    return Subquery(rows.values("pk")[:1])


def is_running() -> Exists:
    """Return the condition that a session has a lease of an active run."""
    return Exists(RunLease.objects.filter(session=OuterRef("pk"), expires_at__gt=timezone.now()))


def leased_until() -> Subquery:
    """Return the end of the lease of a session, if it has one.

    Without ``Exists``, of which PostgreSQL would read the whole table of leases for a page.
    """
    return Subquery(RunLease.objects.filter(session=OuterRef("pk")).values("expires_at")[:1])


class _FlagFilter(admin.SimpleListFilter):
    """Sessions that do or do not have this flag."""

    condition: ClassVar[Callable[[], Q]]

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, Any]]:
        return [("yes", _("Yes")), ("no", _("No"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Session]) -> QuerySet[Session]:
        if self.value() not in {"yes", "no"}:
            return queryset
        condition = type(self).condition()
        return queryset.filter(condition if self.value() == "yes" else ~condition)


class RedactedFilter(_FlagFilter):
    """Sessions with redactions."""

    title = _("redacted")
    parameter_name = "redacted"
    condition = staticmethod(lambda: Q(redactions__gt=0))


class ErrorsFilter(_FlagFilter):
    """Sessions with messages that report an error."""

    title = _("errors")
    parameter_name = "errors"
    # Not `=True`, for which SQLite would not use the index.
    condition = staticmethod(lambda: Q(has_errors=Value(True)))


class LegalHoldFilter(_FlagFilter):
    """Sessions under legal hold."""

    title = _("legal hold")
    parameter_name = "held"
    condition = staticmethod(lambda: Q(legal_hold=True))


class ExpiredFilter(_FlagFilter):
    """Expired sessions."""

    title = _("expired")
    parameter_name = "expired"
    condition = staticmethod(
        lambda: Q(expires_at__isnull=False) & Q(expires_at__lte=timezone.now())
    )


class RunningFilter(_FlagFilter):
    """Sessions with a lease of an active run."""

    title = _("running")
    parameter_name = "running"
    condition = staticmethod(lambda: Q(is_running()))


class ArchivedFilter(_FlagFilter):
    """Archived sessions."""

    title = _("archived")
    parameter_name = "archived"
    condition = staticmethod(lambda: Q(archived_at__isnull=False))


FILTERS: tuple[type[admin.SimpleListFilter], ...] = (
    ActivityFilter,
    AgentFilter,
    FrameworkFilter,
    NamespaceFilter,
    OwnerFilter,
    HasOwnerFilter,
    FeedbackFilter,
    ReviewFilter,
    RunningFilter,
    ErrorsFilter,
    LegalHoldFilter,
    RedactedFilter,
    ExpiredFilter,
    ArchivedFilter,
    CostFilter,
    MetadataFilter,
)
"""The filters in display order."""


def is_filter(name: str) -> bool:
    """Return whether a query parameter is a filter.

    Django would accept any column and so reveal what is in a title.
    """
    return any(
        name == one.parameter_name or (issubclass(one, InputFilter) and name in one.names())
        for one in FILTERS
    )
