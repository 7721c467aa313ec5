"""The filters of the list of sessions."""

from __future__ import annotations

import re
from datetime import datetime
from itertools import starmap
from typing import Any, ClassVar

import django_filters
from django import forms
from django.core.exceptions import ValidationError
from django.db.models import Exists, OuterRef, Value
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema_field

from django_agent_sessions.content.dialects import displayable
from django_agent_sessions.models import Session, SessionAgent
from django_agent_sessions.models.querysets import SessionQuerySet
from django_agent_sessions.rest.serializers.fields import INVALID_DATETIME, parse_datetime_or_none
from django_agent_sessions.values.ids import MAX_ID_LENGTH

_MAX_METADATA_KEYS = 10
# Not a number, which a database would take for an index of an array.
_METADATA_PARAMETER = re.compile(r"metadata\[(?P<key>[^\W\d_][\w.:-]{0,63})\]")


class _BooleanFormField(forms.Field):
    def clean(self, value: Any) -> bool | None:
        if value is None:
            return None
        if value not in ("true", "false"):
            raise ValidationError("Must be true or false.")
        return bool(value == "true")


class _DateTimeFormField(forms.Field):
    def clean(self, value: Any) -> Any:
        if value is None:
            return None
        parsed = parse_datetime_or_none(value)
        if parsed is None:
            raise ValidationError(INVALID_DATETIME)
        return parsed


class _IdFormField(forms.CharField):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(max_length=MAX_ID_LENGTH, strip=False, **kwargs)

    def clean(self, value: Any) -> Any:
        if value == "":
            # An empty value must not count as a missing one, which lists all sessions.
            raise ValidationError("Must not be empty.")
        if isinstance(value, str) and displayable(value) != value:
            raise ValidationError("Contains characters that are not allowed in ids.")
        return super().clean(value)


class _MetadataWidget(forms.Widget):
    """Collects the parameters ``metadata[KEY]``, and a wrong ``metadata`` beside them."""

    def value_from_datadict(self, data: Any, files: Any, name: str) -> dict[str, list[str]]:
        start = f"{name}["
        return {
            parameter: data.getlist(parameter)
            for parameter in data
            if parameter == name or parameter.startswith(start)
        }


class _MetadataFormField(forms.Field):
    widget = _MetadataWidget

    def clean(self, value: Any) -> dict[str, str] | None:
        if len(value) > _MAX_METADATA_KEYS:
            raise ValidationError(f"Must have at most {_MAX_METADATA_KEYS} keys.")
        return dict(starmap(_metadata_value, value.items())) or None


def _metadata_value(parameter: str, values: list[str]) -> tuple[str, str]:
    parsed = _METADATA_PARAMETER.fullmatch(parameter)
    if parsed is None:
        raise ValidationError(
            "Must be metadata[KEY]=VALUE. A key begins with a letter, and has at most 64 letters, "
            "digits and the characters _ . : -"
        )
    [value, *more] = values
    if more or len(value) > MAX_ID_LENGTH or displayable(value) != value:
        raise ValidationError(
            f"Must have one value for each key, with at most {MAX_ID_LENGTH} characters that can "
            "be displayed."
        )
    return parsed["key"], value


class SchemaFilter(django_filters.Filter):  # type: ignore[misc] # django-filter has no types
    """A filter with a schema for the OpenAPI document."""

    takes: ClassVar[dict[str, Any]]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        extend_schema_field({**self.takes, "description": kwargs.get("help_text", "")})(self)


class BooleanFilter(SchemaFilter):
    """A filter by ``true`` or ``false``, and no other value."""

    field_class = _BooleanFormField
    takes = {"type": "boolean"}


class DateTimeFilter(SchemaFilter):
    """A filter by a date and time with a time zone."""

    field_class = _DateTimeFormField
    takes = {"type": "string", "format": "date-time"}


class ActiveSinceFilter(DateTimeFilter):
    """A filter that leaves out no session with a message at a time or later."""

    def filter(self, queryset: SessionQuerySet, value: datetime | None) -> SessionQuerySet:
        return queryset if value is None else queryset.active_since(value)


class IdFilter(SchemaFilter):
    """A filter by an exact id."""

    field_class = _IdFormField
    takes = {"type": "string", "minLength": 1, "maxLength": MAX_ID_LENGTH}


class MetadataTextFilter(SchemaFilter):
    """A filter by texts in the metadata: ``metadata[team]=blue``."""

    field_class = _MetadataFormField
    takes = {"type": "object", "additionalProperties": {"type": "string"}}

    def filter(self, qs: Any, value: dict[str, str] | None) -> Any:
        return qs.metadata(**value) if value else qs


class SessionFilter(filters.FilterSet):  # type: ignore[misc] # django-filter has no types
    """The filters of a list of sessions; ``q`` and ``scope`` belong to the view."""

    external_id = IdFilter(help_text="The id that the client chose.")
    session_id = IdFilter(help_text="The session id that the SDK uses.")
    agent = IdFilter(method="filter_agent", help_text="The id of an agent of the session.")
    archived = BooleanFilter(
        field_name="archived_at",
        lookup_expr="isnull",
        exclude=True,
        help_text="Whether the session is archived.",
    )
    errors = BooleanFilter(
        method="filter_errors", help_text="Whether a message of the session reports an error."
    )
    created_after = DateTimeFilter(
        field_name="created_at", lookup_expr="gte", help_text="Created at this time or later."
    )
    created_before = DateTimeFilter(
        field_name="created_at", lookup_expr="lt", help_text="Created before this time."
    )
    active_after = ActiveSinceFilter(
        help_text="Active at this time or later; `last_activity_at` may be 5 seconds earlier."
    )
    active_before = DateTimeFilter(
        field_name="last_activity_at", lookup_expr="lt", help_text="Last active before this time."
    )
    metadata = MetadataTextFilter(
        help_text="Texts in the metadata, as `metadata[team]=blue`; an error if it is encrypted."
    )

    class Meta:
        model = Session
        fields: ClassVar[list[str]] = []

    def filter_errors(self, sessions: Any, name: str, value: bool) -> Any:
        """Return the sessions with errors, or those without."""
        return sessions.with_errors() if value else sessions.filter(has_errors=Value(False))

    def filter_agent(self, sessions: Any, name: str, value: str) -> Any:
        """Return the sessions that have an agent of this id."""
        agents = SessionAgent.objects.using(sessions.db).filter(session=OuterRef("pk"))
        return sessions.filter(Exists(agents.filter(agent_id=value)))


class SessionFilterBackend(filters.DjangoFilterBackend):  # type: ignore[misc] # no types
    """Filters by :class:`SessionFilter`; builds no form for a request that names no filter."""

    def filter_queryset(self, request: Any, queryset: Any, view: Any) -> Any:
        """Return the rows that the request's parameters select."""
        # Of `metadata[team]`, too.
        names = {name.partition("[")[0] for name in request.query_params}
        unused = SessionFilter.base_filters.keys().isdisjoint(names)
        if unused and self.get_filterset_class(view, queryset) is SessionFilter:
            return queryset
        return super().filter_queryset(request, queryset, view)
