"""Maximum size of a statement on MariaDB and MySQL."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import connections

from django_agent_sessions.content import exact_json
from django_agent_sessions.exceptions import PayloadError

_CHECKED_FROM = 256 * 1024
# Upper bound for the rest of a statement with the maximum number of rows.
_OVERHEAD = 256 * 1024
_ESCAPED = "\\'\"\n\r\0\x1a"
"""Characters that the driver escapes, and that take two bytes."""


def check_statement_size(using: str, texts: Iterable[str]) -> None:
    """Raise if a statement with these texts exceeds the server's ``max_allowed_packet``."""
    connection = connections[using]
    if connection.vendor != "mysql":
        return
    texts = list(texts)
    if sum(map(len, texts)) < _CHECKED_FROM:
        return
    # Counted instead of escaped: escaping 20 MB would take seconds.
    escaped = sum(text.count(character) for text in texts for character in _ESCAPED)
    size = _OVERHEAD + sum(len(text.encode()) for text in texts) + escaped
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@max_allowed_packet")
        allowed = int(cursor.fetchone()[0])
    if size > allowed:
        raise PayloadError(
            f"the statement would be {size} bytes, and the server allows {allowed}; increase its "
            "max_allowed_packet"
        )


def check_values_size(using: str, *values: Any) -> None:
    """Check the statement size for values of payload fields."""
    if connections[using].vendor == "mysql":
        check_statement_size(using, [exact_json.dumps(value) for value in values])
