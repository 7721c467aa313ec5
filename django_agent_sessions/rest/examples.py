"""Request examples of the OpenAPI document."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiExample


def _request(name: str, value: dict[str, Any]) -> OpenApiExample:
    return OpenApiExample(name, value=value, request_only=True)


CREATE = [
    _request("New session", {"title": "A trip to Lisbon"}),
    _request(
        "Session of a client's thread",
        {"external_id": "thread-4711", "title": "A trip", "metadata": {"channel": "web"}},
    ),
]

CHANGE = [
    _request("Rename", {"title": "Lisbon in May"}),
    _request("Archive", {"archived": True}),
    _request("Set the expiry", {"expires_at": "2027-01-01T00:00:00Z"}),
]

REDACT_SESSION = [
    _request("Preview", {"find": "4111 1111 1111 1111", "dry_run": True}),
    _request("Redact a text", {"find": "4111 1111 1111 1111", "reason": "Ticket 5120"}),
    _request("Redact with detectors", {"detectors": ["email"], "reason": "Ticket 5120"}),
]

REDACT_MESSAGE = [
    _request("Whole message", {"reason": "Ticket 5120"}),
    _request("One part", {"path": ["content", 0], "reason": "Ticket 5120"}),
    _request(
        "Range of a text",
        {"path": ["content", 0], "start": 11, "end": 30, "reason": "Ticket 5120"},
    ),
]

ORIGINAL = [_request("Reason", {"reason": "Complaint 17, requested by legal"})]

FORK = [
    _request("Whole conversation", {}),
    _request(
        "Up to a message",
        {
            "at": "01998f3c-0000-7000-8000-000000000000",
            "title": "What if we had gone to Porto?",
            "external_id": "thread-4712",
        },
    ),
]

REWIND = [
    _request("To a message by its id", {"to": "01998f3c-0000-7000-8000-000000000000"}),
    _request("To the third message", {"to": 2, "name": "Lisbon"}),
    _request("Before the first message", {"to": -1}),
]

CREATE_BRANCH = [
    _request("Copy of the main branch", {"name": "Porto"}),
    _request("Another branch up to its third message", {"source": 1, "at": 2, "name": "Porto"}),
]
