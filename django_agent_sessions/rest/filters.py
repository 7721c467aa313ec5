"""Which sessions a list holds."""

from __future__ import annotations

from typing import Any, ClassVar

import django_filters
from django import forms
from django.core.exceptions import ValidationError
from django.db.models import Exists, OuterRef
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema_field

from django_agent_sessions.ids import MAX_ID_LENGTH
from django_agent_sessions.models import Session, SessionAgent
from django_agent_sessions.rest.serializers.fields import NO_MOMENT, read_moment
from django_agent_sessions.transcripts import displayable


class _Choice(forms.Field):
    def clean(self, value: Any) -> bool | None:
        if value is None:
            return None
        if value not in ("true", "false"):
            raise ValidationError("Give true or false.")
        return bool(value == "true")


class _Moment(forms.Field):
    def clean(self, value: Any) -> Any:
        if value is None:
            return None
        found = read_moment(value)
        if found is None:
            raise ValidationError(NO_MOMENT)
        return found


class _Text(forms.CharField):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(max_length=MAX_ID_LENGTH, strip=False, **kwargs)

    def clean(self, value: Any) -> Any:
        if value == "":
            # Not as if it was not given: that would be all sessions.
            raise ValidationError("Give an id.")
        if isinstance(value, str) and displayable(value) != value:
            raise ValidationError("The text holds characters that no id has.")
        return super().clean(value)


class DescribedFilter(django_filters.Filter):  # type: ignore[misc] # it has no types
    """A filter that says in the OpenAPI document what it takes."""

    takes: ClassVar[dict[str, Any]]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        extend_schema_field({**self.takes, "description": kwargs.get("help_text", "")})(self)


class BooleanFilter(DescribedFilter):
    """``true`` or ``false``, and nothing else."""

    field_class = _Choice
    takes = {"type": "boolean"}


class MomentFilter(DescribedFilter):
    """A moment with its time zone."""

    field_class = _Moment
    takes = {"type": "string", "format": "date-time"}


class IdFilter(DescribedFilter):
    """An id, exactly."""

    field_class = _Text
    takes = {"type": "string", "minLength": 1, "maxLength": MAX_ID_LENGTH}


class SessionFilter(filters.FilterSet):  # type: ignore[misc] # django-filter has no types
    """The filters of a list of sessions; ``q`` and ``scope`` are the view's."""

    external_id = IdFilter(help_text="The id that the client chose.")
    session_id = IdFilter(help_text="The name of the session.")
    agent = IdFilter(method="of_agent", help_text="The id of an agent of the session.")
    archived = BooleanFilter(
        field_name="archived_at", lookup_expr="isnull", exclude=True, help_text="Whether put away."
    )
    created_after = MomentFilter(
        field_name="created_at", lookup_expr="gte", help_text="Made then or later."
    )
    created_before = MomentFilter(
        field_name="created_at", lookup_expr="lt", help_text="Made before that."
    )
    active_after = MomentFilter(
        field_name="last_activity_at", lookup_expr="gte", help_text="Active then or later."
    )
    active_before = MomentFilter(
        field_name="last_activity_at", lookup_expr="lt", help_text="Not active since."
    )

    class Meta:
        model = Session
        fields: ClassVar[list[str]] = []

    def of_agent(self, sessions: Any, name: str, value: str) -> Any:
        """Keeps sessions that have an agent of this id."""
        agents = SessionAgent.objects.using(sessions.db).filter(session=OuterRef("pk"))
        return sessions.filter(Exists(agents.filter(agent_id=value)))
