"""Examples in the OpenAPI document."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiExample


def _asked(name: str, value: dict[str, Any]) -> OpenApiExample:
    return OpenApiExample(name, value=value, request_only=True)


CREATE = [
    _asked("A new conversation", {"title": "A trip to Lisbon"}),
    _asked(
        "The conversation of a client's thread",
        {"external_id": "thread-4711", "title": "A trip", "metadata": {"channel": "web"}},
    ),
]
"""Sessions that are made."""

CHANGE = [
    _asked("Rename", {"title": "Lisbon in May"}),
    _asked("Put away", {"archived": True}),
    _asked("Keep until a day", {"expires_at": "2027-01-01T00:00:00Z"}),
]
"""Changes of a session."""

REDACT_SESSION = [
    _asked("Look what would go", {"find": "4111 1111 1111 1111", "dry_run": True}),
    _asked("Take out a text", {"find": "4111 1111 1111 1111", "reason": "Ticket 5120"}),
    _asked("Take out what is found", {"detectors": ["email"], "reason": "Ticket 5120"}),
]
"""Redactions in a session."""

REDACT_MESSAGE = [
    _asked("The whole message", {"reason": "Ticket 5120"}),
    _asked("One part", {"path": ["content", 0], "reason": "Ticket 5120"}),
    _asked(
        "A piece of a text",
        {"path": ["content", 0], "start": 11, "end": 30, "reason": "Ticket 5120"},
    ),
]
"""Redactions in a message."""

ORIGINAL = [_asked("Why", {"reason": "Complaint 17, asked for by legal"})]
"""Why somebody sees an original."""

FORK = [
    _asked("The whole conversation", {}),
    _asked(
        "Try something else from a message on",
        {
            "at": "01998f3c-0000-7000-8000-000000000000",
            "title": "What if we had gone to Porto?",
            "external_id": "thread-4712",
        },
    ),
]
"""Forks of a session."""

REWIND = [
    _asked("To a message that was seen", {"to": "01998f3c-0000-7000-8000-000000000000"}),
    _asked("To the third message", {"to": 2, "name": "Lisbon"}),
    _asked("To before the first", {"to": -1}),
]
"""Rewinds of an agent."""

CREATE_BRANCH = [
    _asked("Like the main branch", {"name": "Porto"}),
    _asked("Like another, up to its third message", {"source": 1, "at": 2, "name": "Porto"}),
]
"""Branches that are made."""
