"""What an import left behind, and one that ends half-way."""

from __future__ import annotations

from django_agent_sessions.models import Session, SessionAgent, SessionMessage, SessionMultiAgent
from tests.interchange.sources import Made, said, talk


def contents(session_id: str = "talk") -> list[str]:
    """What is stored, whose positions are dense."""
    rows = list(
        SessionMessage.objects.filter(session__session_id=session_id).order_by("message_id")
    )
    assert [row.message_id for row in rows] == list(range(len(rows)))
    return [row.message["content"] for row in rows]


def everything() -> str:
    models = (Session, SessionAgent, SessionMessage, SessionMultiAgent)
    return str([list(model._base_manager.order_by("pk").values()) for model in models])


def numbers(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def reasons(report) -> list[tuple[str, str]]:
    return [(skipped.place, skipped.reason) for skipped in report.skipped]


class StoppedError(Exception):
    """Stands for whatever ends an import half-way."""


def stopping_at(count: int, length: int) -> Made:
    """A source that ends with an error after so many messages."""

    def messages():
        for number, message in enumerate(said(length)):
            if number == count:
                raise StoppedError
            yield message

    return Made([talk(messages())])
