"""Sources for imports that are made in a test."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from django_agent_sessions.interchange.sources import (
    Skipped,
    SourceAgent,
    SourceMessage,
    SourceSession,
)

START = datetime(2024, 5, 1, 12, 0, tzinfo=UTC)


@dataclass
class Made:
    """A source of what a test says."""

    found: Iterable[SourceSession | Skipped] = ()
    kind: str = "made"
    asked: list[str] = field(default_factory=list)

    def sessions(self) -> Iterator[SourceSession | Skipped]:
        yield from self.found

    def count(self) -> int | None:
        return None


def user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


def said(count: int, *, start: datetime = START) -> list[SourceMessage | Skipped]:
    """Messages ``0``, ``1`` and so on, of which two at a time are of one second."""
    return [
        SourceMessage(user(str(number)), created_at=start + timedelta(seconds=number // 2))
        for number in range(count)
    ]


def talk(
    messages: Iterable[SourceMessage | Skipped], name: str = "talk", **options: Any
) -> SourceSession:
    """A session of one agent."""
    agent = SourceAgent("default", "openai", messages)
    return SourceSession(name, [agent], **{"created_at": START, **options})
