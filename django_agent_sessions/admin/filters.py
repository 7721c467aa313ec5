"""Filters of the list of sessions. None of them counts, or looks at all rows for its choices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db import router
from django.db.models import Exists, Min, OuterRef, Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from django_agent_sessions.models import Session, SessionAgent
from django_agent_sessions.transcripts import ASSISTANT_UI, OPENAI, STRANDS, displayable

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise

NAMESPACES = 20
"""How many namespaces are offered."""

FRAMEWORKS: dict[str, _StrPromise | str] = {
    STRANDS: "Strands",
    OPENAI: "OpenAI",
    ASSISTANT_UI: "assistant-ui",
}
"""What the message formats are called."""


def refuse_nul(parameters: Mapping[str, Sequence[str]]) -> None:
    """Refuses what PostgreSQL would, once it is asked."""
    if any("\x00" in value for values in parameters.values() for value in values):
        raise IncorrectLookupParameters


class FrameworkFilter(admin.SimpleListFilter):
    """Sessions that have an agent of a framework."""

    title = _("framework")
    parameter_name = "framework"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, Any]]:
        """Offers the frameworks that are known."""
        return FRAMEWORKS.items()

    def queryset(self, request: HttpRequest, queryset: QuerySet[Session]) -> QuerySet[Session]:
        """Keeps these."""
        if self.value() is None:
            return queryset
        return queryset.filter(
            Exists(SessionAgent.objects.filter(session=OuterRef("pk"), dialect=self.value()))
        )


class NamespaceFilter(admin.SimpleListFilter):
    """Sessions of a namespace."""

    title = _("namespace")
    parameter_name = "namespace"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, Any]]:
        """Offers the first namespaces, and the chosen one, unless there is only one."""
        found = _namespaces(model_admin.get_queryset(request))
        chosen = self.used_parameters.get(self.parameter_name)
        if chosen is not None and chosen not in found:
            found.append(chosen)
        elif len(found) < 2 and chosen is None:
            return []
        return [(name, displayable(name) or _("(none)")) for name in found]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Session]) -> QuerySet[Session]:
        """Keeps these."""
        value = self.value()
        if value is None:
            return queryset
        return queryset.filter(namespace=value)


class OwnedFilter(admin.SimpleListFilter):
    """Sessions that belong to somebody, or to nobody."""

    title = _("owner")
    parameter_name = "owned"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, Any]]:
        """Offers both."""
        return [("yes", _("Has an owner")), ("no", _("Has none"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Session]) -> QuerySet[Session]:
        """Keeps these."""
        if self.value() not in {"yes", "no"}:
            return queryset
        return queryset.filter(owner__isnull=self.value() == "no")


class OwnerFilter(admin.SimpleListFilter):
    """Sessions of one user, whom a link in the list names."""

    title = _("this owner")
    parameter_name = "owner"
    owner: Any = None

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, Any]]:
        """Offers only whoever was chosen."""
        chosen = self.used_parameters.get(self.parameter_name)
        if chosen is None:
            return []
        users = get_user_model()
        rows = users._default_manager.using(router.db_for_read(users))
        try:
            self.owner = rows.filter(pk=chosen).first()
        except (ValueError, ValidationError, OverflowError) as error:
            raise IncorrectLookupParameters(error) from error
        return [(chosen, displayable(self.owner.get_username()) if self.owner else chosen)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Session]) -> QuerySet[Session]:
        """Keeps these."""
        if self.value() is None:
            return queryset
        return queryset.none() if self.owner is None else queryset.filter(owner=self.owner.pk)


class ActivityFilter(admin.SimpleListFilter):
    """Sessions by their last activity."""

    title = _("last activity")
    parameter_name = "activity"
    days: ClassVar[dict[str, int]] = {"1d": 1, "7d": 7, "30d": 30}

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, Any]]:
        """Offers some spans of time."""
        return [
            ("1d", _("Past 24 hours")),
            ("7d", _("Past 7 days")),
            ("30d", _("Past 30 days")),
            ("older", _("Older")),
        ]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Session]) -> QuerySet[Session]:
        """Keeps these."""
        value = self.value() or ""
        if days := self.days.get(value):
            return queryset.filter(last_activity_at__gte=timezone.now() - timedelta(days=days))
        if value == "older":
            return queryset.filter(last_activity_at__lt=timezone.now() - timedelta(days=30))
        return queryset


class _FlagFilter(admin.SimpleListFilter):
    """Sessions that have a flag, or have it not."""

    condition: ClassVar[Callable[[], Q]]

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, Any]]:
        """Offers both."""
        return [("yes", _("Yes")), ("no", _("No"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Session]) -> QuerySet[Session]:
        """Keeps these."""
        if self.value() not in {"yes", "no"}:
            return queryset
        condition = type(self).condition()
        return queryset.filter(condition if self.value() == "yes" else ~condition)


class RedactedFilter(_FlagFilter):
    """Sessions in which something was redacted."""

    title = _("redacted")
    parameter_name = "redacted"
    condition = staticmethod(lambda: Q(redactions__gt=0))


class HeldFilter(_FlagFilter):
    """Sessions under legal hold."""

    title = _("legal hold")
    parameter_name = "held"
    condition = staticmethod(lambda: Q(legal_hold=True))


class ExpiredFilter(_FlagFilter):
    """Sessions whose time is over."""

    title = _("expired")
    parameter_name = "expired"
    condition = staticmethod(
        lambda: Q(expires_at__isnull=False) & Q(expires_at__lte=timezone.now())
    )


class ArchivedFilter(_FlagFilter):
    """Sessions that were archived."""

    title = _("archived")
    parameter_name = "archived"
    condition = staticmethod(lambda: Q(archived_at__isnull=False))


FILTERS = (
    ActivityFilter,
    FrameworkFilter,
    NamespaceFilter,
    OwnerFilter,
    OwnedFilter,
    HeldFilter,
    RedactedFilter,
    ExpiredFilter,
    ArchivedFilter,
)
"""The filters in the order in which they are shown."""

PARAMETERS = frozenset(shown.parameter_name for shown in FILTERS)
"""All that can be filtered by. Django would take any column, and so tell what is in a title."""


def _namespaces(sessions: QuerySet[Any]) -> list[str]:
    """Reads the first namespaces from one to the next by the index, however many rows each has."""
    found: list[str] = []
    last = sessions.order_by().aggregate(least=Min("namespace"))["least"]
    while last is not None and len(found) < NAMESPACES:
        found.append(last)
        rest = sessions.order_by().filter(namespace__gt=last)
        last = rest.aggregate(least=Min("namespace"))["least"]
    return found
