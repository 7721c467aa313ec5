"""How large a statement may be."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import connections

from django_agent_sessions import payloads
from django_agent_sessions.exceptions import PayloadError

_WORTH_ASKING = 256 * 1024
# The rest of a statement with the most rows, generously.
_OVERHEAD = 256 * 1024
_QUOTED = "\\'\"\n\r\0\x1a"
"""What takes two bytes, because the driver quotes it."""


def check_statement_size(using: str, texts: Iterable[str]) -> None:
    """Refuses what the server would drop the connection for: MySQL's and MariaDB's packet size."""
    connection = connections[using]
    if connection.vendor != "mysql":
        return
    texts = list(texts)
    if sum(map(len, texts)) < _WORTH_ASKING:
        return
    # Counted, because to quote 20 MB would take seconds.
    quoted = sum(text.count(character) for text in texts for character in _QUOTED)
    size = _OVERHEAD + sum(len(text.encode()) for text in texts) + quoted
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@max_allowed_packet")
        allowed = int(cursor.fetchone()[0])
    if size > allowed:
        raise PayloadError(
            f"the statement would be {size} bytes; the server takes {allowed}: raise its "
            "max_allowed_packet"
        )


def check_values_size(using: str, *values: Any) -> None:
    """Does what :func:`check_statement_size` does, for values of payload fields."""
    if connections[using].vendor == "mysql":
        check_statement_size(using, [payloads.dumps(value) for value in values])
