"""Filters with fields to fill in: periods, costs, metadata."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, ClassVar

from django.conf import settings
from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.dateparse import parse_date
from django.utils.translation import gettext_lazy as _

from django_agent_sessions.conf import get_settings
from django_agent_sessions.content import codec
from django_agent_sessions.models import Session
from django_agent_sessions.models.functions import value_is, value_of
from django_agent_sessions.models.querysets import is_valid_in_all_time_zones
from django_agent_sessions.values.ids import first_id_for_time
from django_agent_sessions.values.prices import UNITS

from .permissions import SessionPermission, reach


def moment_of(request: HttpRequest) -> datetime:
    """Return the time from which filters count back: for an operation, when it was started."""
    moment: datetime | None = getattr(request, "as_of", None)
    return moment or timezone.now()


@dataclass(frozen=True, slots=True)
class FilterField:
    """A field of a filter's form; with choices it is a list to choose from."""

    name: str
    label: Any
    type: str
    value: str
    choices: Sequence[tuple[str, Any]] = ()


class InputFilter(admin.SimpleListFilter):
    """A filter with a form, and choices beside it if ``lookups`` returns some."""

    template = "agent_sessions/admin/input_filter.html"
    input_type: ClassVar[str] = "text"
    fields: tuple[FilterField, ...] = ()
    hidden: tuple[tuple[str, str], ...] = ()

    def __init__(self, request: HttpRequest, params: Any, model: Any, model_admin: Any) -> None:
        super().__init__(request, params, model, model_admin)
        self.given = {name: params.pop(name)[-1] for name in self.names() if name in params}
        self.used_parameters.update(self.given)

    @classmethod
    def inputs(cls) -> Mapping[str, Any]:
        """Return the labels of the form's fields, by query parameter."""
        return {}

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the query parameters of the form."""
        return tuple(cls.inputs())

    def has_output(self) -> bool:
        return bool(self.names())

    def is_permitted(self) -> bool:
        """Return whether the user may filter by this in any session."""
        return True

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, Any]]:
        return []

    def expected_parameters(self) -> list[str | None]:
        return [self.parameter_name, *self.names()]

    def choices(self, changelist: Any) -> Iterator[Any]:
        """Yield the choices, whose links leave out the form's values."""
        own = {self.parameter_name, *self.names()}
        self.hidden = tuple((k, v) for k, v in changelist.params.items() if k not in own)
        self.fields = tuple(self.form_fields())
        lookups = self.lookup_choices
        chosen = any(self.given.values())
        yield {
            "selected": not chosen and self.value() is None,
            "query_string": changelist.get_query_string(remove=[*own]),
            "display": _("All"),
        }
        for value, title in lookups:
            yield {
                "selected": self.value() == str(value),
                "query_string": changelist.get_query_string(
                    {self.parameter_name: value}, [*self.names()]
                ),
                "display": title,
            }

    def form_fields(self) -> Iterator[FilterField]:
        """Yield the fields of the form."""
        for name, label in self.inputs().items():
            yield FilterField(name, label, self.input_type, self.text(name))

    def text(self, name: str) -> str:
        """Return what was filled in."""
        return str(self.given.get(name, "")).strip()


class PeriodFilter(InputFilter):
    """Rows of the last days, or from one date until another in the current time zone."""

    input_type = "date"
    column: ClassVar[str] = "pk"
    """The column that is compared."""

    days: ClassVar[dict[str, tuple[int, Any]]] = {
        "1d": (1, _("Past 24 hours")),
        "7d": (7, _("Past 7 days")),
        "30d": (30, _("Past 30 days")),
    }

    @classmethod
    def inputs(cls) -> Mapping[str, Any]:
        name = cls.parameter_name
        return {f"{name}_from": _("From"), f"{name}_until": _("Until")}

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, Any]]:
        return [(name, label) for name, (_days, label) in self.days.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        first, last = (self._day(name) for name in self.names())
        if days := self.days.get(self.value() or ""):
            queryset = self._compare(queryset, "gte", moment_of(request) - timedelta(days=days[0]))
        if first:
            queryset = self._compare(queryset, "gte", _midnight(first))
        return self._compare(queryset, "lt", _midnight(last, days=1)) if last else queryset

    def value_at(self, moment: datetime) -> Any:
        """Return the value of the column at a time; by default a primary key."""
        return first_id_for_time(moment)

    def _compare(self, rows: QuerySet[Any], lookup: str, moment: datetime) -> QuerySet[Any]:
        return rows.filter(**{f"{self.column}__{lookup}": self.value_at(moment)})

    def _day(self, name: str) -> date | None:
        try:
            day = parse_date(self.text(name))
        except ValueError as error:
            raise IncorrectLookupParameters(error) from error
        if day is None and self.text(name):
            raise IncorrectLookupParameters
        return day


class ActivityFilter(PeriodFilter):
    """Sessions by their last activity."""

    title = _("last activity")
    parameter_name = "activity"
    column = "last_activity_at"

    def value_at(self, moment: datetime) -> Any:
        return moment


class TimeFilter(PeriodFilter):
    """Audit events by their time, by the index of their primary keys."""

    title = _("time")
    parameter_name = "when"
    days: ClassVar = {**PeriodFilter.days, "365d": (365, _("Past 365 days"))}


class CostFilter(InputFilter):
    """Sessions by their cost."""

    title = _("cost")
    parameter_name = "cost"
    input_type = "number"

    @classmethod
    def inputs(cls) -> Mapping[str, Any]:
        labels = {"cost_from": _("From"), "cost_until": _("Until")}
        return labels if get_settings().PRICES else {}

    def queryset(self, request: HttpRequest, queryset: QuerySet[Session]) -> QuerySet[Session]:
        for name, lookup in zip(self.names(), ("cost__gte", "cost__lte"), strict=False):
            if text := self.text(name):
                queryset = queryset.filter(**{lookup: _units(text)})
        return queryset


_MAX_AMOUNT_DIGITS = 15


def _units(text: str) -> int:
    try:
        amount = Decimal(text)
        # Python needs minutes to make an integer of 1e900000.
        if amount.adjusted() > _MAX_AMOUNT_DIGITS:
            raise IncorrectLookupParameters
        return int(amount * UNITS)
    except (ArithmeticError, ValueError) as error:
        raise IncorrectLookupParameters(error) from error


class MetadataFilter(InputFilter):
    """Sessions by the values of metadata that ``METADATA_FILTERS`` names."""

    title = _("metadata")
    parameter_name = "by_metadata"

    def __init__(self, request: HttpRequest, *args: Any) -> None:
        self.readable = reach(request, SessionPermission.READ)
        super().__init__(request, *args)

    def is_permitted(self) -> bool:
        return bool(self.readable)

    @classmethod
    def inputs(cls) -> Mapping[str, Any]:
        return {f"metadata_{key}": key for key in _metadata_filters()}

    def queryset(self, request: HttpRequest, queryset: QuerySet[Session]) -> QuerySet[Session]:
        """Filter sessions that the user may read: metadata is content."""
        for number, key in enumerate(_metadata_filters()):
            if text := self.text(f"metadata_{key}"):
                readable = self.readable.filter(queryset)
                name = f"metadata_{number}"
                condition = value_is(name, key, "metadata", text)
                if (value := _scalar(text)) is not None:
                    condition |= value_is(name, key, "metadata", value)
                queryset = readable.alias(**{name: value_of(key, "metadata")}).filter(condition)
        return queryset


def _metadata_filters() -> Sequence[str]:
    # What is encrypted cannot be filtered.
    return () if codec.hides_metadata() else get_settings().METADATA_FILTERS


def _scalar(text: str) -> bool | float | None:
    """Return the number or boolean that a text is in JSON."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (bool, int, float)) else None


def _midnight(day: date, *, days: int = 0) -> datetime:
    try:
        moment = datetime.combine(day + timedelta(days=days), time())
        moment = timezone.make_aware(moment) if settings.USE_TZ else moment
    except OverflowError as error:
        raise IncorrectLookupParameters(error) from error
    if not is_valid_in_all_time_zones(moment):
        raise IncorrectLookupParameters
    return moment
