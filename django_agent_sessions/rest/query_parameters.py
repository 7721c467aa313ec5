"""Query parameters: wrong values and unknown names are errors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rest_framework.exceptions import ValidationError
from rest_framework.settings import api_settings

from django_agent_sessions.content.dialects import displayable
from django_agent_sessions.queries.search import MAX_QUERY_LENGTH

from .access import SCOPE

QUERY = "q"
"""The query parameter of searches."""

_MAX_NAMES = 10
_MAX_NAME_LENGTH = 100


def search_query(request: Any) -> str:
    """Return the search query; empty for all rows."""
    query: str = request.query_params.get(QUERY, "")
    if len(query) > MAX_QUERY_LENGTH:
        raise ValidationError({QUERY: [f"Must have at most {MAX_QUERY_LENGTH} characters."]})
    return query.strip()


def is_search(request: Any) -> bool:
    """Return whether the request has a search query; one of spaces does not count."""
    return bool(request.query_params.get(QUERY, "").strip())


def boolean_parameter(request: Any, name: str) -> bool:
    """Return the value of a boolean parameter, which is false by default."""
    value = request.query_params.get(name, "false")
    if value not in ("true", "false"):
        raise ValidationError({name: ["Must be true or false."]})
    return bool(value == "true")


def reject_unknown_parameters(request: Any, known: Iterable[str]) -> None:
    """Raise ``ValidationError`` for an unknown parameter.

    If a misspelled filter were ignored, the response would list everything.

    ``scope`` and the parameters of Django REST framework are always accepted.
    """
    documented = sorted({*known, SCOPE})
    accepted = {*documented, api_settings.URL_FORMAT_OVERRIDE, api_settings.VERSION_PARAM}
    unknown = sorted(name for name in request.query_params if name not in accepted)
    if unknown:
        hint = f"Unknown parameter. The parameters are: {', '.join(documented)}."
        raise ValidationError(
            {displayable(name)[:_MAX_NAME_LENGTH]: [hint] for name in unknown[:_MAX_NAMES]}
        )
