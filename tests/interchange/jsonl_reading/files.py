"""Files of exported sessions, as tests write, change and compare them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from django_agent_sessions.interchange import JsonLines, export_sessions
from django_agent_sessions.models import (
    MessageFeedback,
    Session,
    SessionAgent,
    SessionMessage,
    SessionMultiAgent,
)
from tests.strategies import exactly

MODELS = (Session, SessionAgent, SessionMessage, SessionMultiAgent, MessageFeedback)


def rows() -> dict[str, list[str]]:
    """All there is, to the last column; of where a session came from only what was there before."""
    found = {}
    for model in MODELS:
        listed: list[Any] = list(model._base_manager.order_by("pk").values())
        for row in listed:
            # What writers and streams of this database compare: none does elsewhere.
            for name in [*row]:
                if name == "last_write" or name.endswith("change"):
                    del row[name]
            if row.get("origin"):
                row["origin"] = {k: v for k, v in row["origin"].items() if k != "import"} or None
        found[model.__name__] = [exactly(row) for row in listed]
    return found


def forget() -> None:
    """Empties the database, legal holds and all."""
    Session.objects.all().update(legal_hold=False)
    Session.objects.all().delete()


def export(path: Path, **options: Any) -> str:
    text = "".join(export_sessions(Session.objects.all(), **options))
    path.write_text(text)
    return text


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def write(path: Path, *values: Any) -> JsonLines:
    path.write_text("".join(json.dumps(value) + "\n" for value in values))
    return JsonLines(path)


def reasons(report) -> list[tuple[str, str]]:
    return [(skipped.place, skipped.reason) for skipped in report.skipped]


def changed(line: Any, where: str, value: Any) -> Any:
    """Sets what stands at a path like ``agents.0.messages.0.id``."""
    *path, last = [int(name) if name.isdigit() else name for name in where.split(".")]
    target = line
    for name in path:
        target = target[name]
    target[last] = value
    return line
