"""Ids and numbers in paths and query parameters.

A text in a path that is no id or number becomes one that no row has. The response is then the API's
own 404, after authentication, instead of Django's page for unknown paths.
"""

from __future__ import annotations

from uuid import UUID

from django.urls import register_converter

from django_agent_sessions.timeline.references import parse_branch_number

_NO_ID = UUID(int=0)
_NO_NUMBER = -1


def parse_uuid(value: object) -> UUID | None:
    """Parse a primary key in any spelling; return ``None`` if it is not a UUID."""
    try:
        return UUID(str(value))
    except ValueError:
        return None


class UUIDConverter:
    """A primary key in a path; unlike Django's converter it accepts every spelling of a UUID."""

    regex = "[^/]+"

    def to_python(self, value: str) -> UUID:
        return parse_uuid(value) or _NO_ID

    def to_url(self, value: object) -> str:
        return str(value)


class BranchNumberConverter:
    """The number of a branch in a path."""

    regex = "[^/]+"

    def to_python(self, value: str) -> int:
        number = parse_branch_number(value)
        return _NO_NUMBER if number is None else number

    def to_url(self, value: object) -> str:
        return str(value)


class AnyTextConverter:
    """Any text in a path, slashes and line feeds too, because agent ids may contain them."""

    regex = r"[\s\S]+"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


register_converter(UUIDConverter, "agent_sessions_uuid")
register_converter(BranchNumberConverter, "agent_sessions_branch")
register_converter(AnyTextConverter, "agent_sessions_text")
