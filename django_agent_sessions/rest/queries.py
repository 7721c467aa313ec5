"""Reading query parameters: what is not as it can be is an error that says what to give."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rest_framework.exceptions import ValidationError
from rest_framework.settings import api_settings

from django_agent_sessions.search import MAX_QUERY
from django_agent_sessions.transcripts import displayable

from .access import SCOPE

QUERY = "q"
"""The query parameter of searches."""

_NAMED = 10
_NAME = 100


def query_of(request: Any) -> str:
    """Reads what is looked for."""
    query: str = request.query_params.get(QUERY, "")
    if len(query) > MAX_QUERY:
        raise ValidationError({QUERY: [f"Give at most {MAX_QUERY} characters."]})
    return query.strip()


def is_search(request: Any) -> bool:
    """Tells whether a request looks for anything."""
    return bool(request.query_params.get(QUERY, "").strip())


def flag_of(request: Any, name: str) -> bool:
    """Reads whether something is wanted."""
    given = request.query_params.get(name, "false")
    if given not in ("true", "false"):
        raise ValidationError({name: ["Give true or false."]})
    return bool(given == "true")


def refuse_unknown(request: Any, known: Iterable[str]) -> None:
    """Refuses parameters that would be passed over: a misspelled filter would list everything."""
    named = sorted({*known, SCOPE})
    always = {*named, api_settings.URL_FORMAT_OVERRIDE, api_settings.VERSION_PARAM}
    unknown = sorted(name for name in request.query_params if name not in always)
    if unknown:
        hint = f"There is no such parameter. The parameters are: {', '.join(named)}."
        raise ValidationError({displayable(name)[:_NAME]: [hint] for name in unknown[:_NAMED]})
