"""Sessions with messages, and operations on them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.utils import timezone

from django_agent_sessions.governance.redaction import Find
from django_agent_sessions.models import Operation, Session, SessionAgent, SessionMessage
from django_agent_sessions.operations import run, start
from tests.admin.people import staff

EVERYTHING = (
    "view_session",
    "change_session",
    "delete_session",
    "read_transcript",
    "redact",
    "export",
)
SECRET = "4111 1111 1111 1111"


def storing_exports(folder: object) -> dict[str, Any]:
    """Return settings with a storage for exports in a folder."""
    storage = {
        "BACKEND": "django.core.files.storage.FileSystemStorage",
        "OPTIONS": {"location": str(folder)},
    }
    return {
        "STORAGES": {**settings.STORAGES, "private": storage},
        "AGENT_SESSIONS": {"EXPORT_STORAGE": "private", "OPERATIONS_IN_PROCESS": False},
    }


def officer(name: str = "officer", *permissions: str) -> Any:
    return staff(name, *(permissions or EVERYTHING))


def talk(count: int, *, namespace: str = "", text: str = f"my card is {SECRET}") -> list[Session]:
    """Make sessions with an agent and a message each, as quickly as rows can be inserted."""
    sessions: list[Session] = Session.objects.bulk_create(
        [
            Session(session_id=f"{namespace}-{number}", namespace=namespace, message_count=1)
            for number in range(count)
        ],
        batch_size=500,
    )
    agents = SessionAgent.objects.bulk_create(
        [SessionAgent(session=each, agent_id="default", dialect="openai") for each in sessions],
        batch_size=500,
    )
    SessionMessage.objects.bulk_create(
        [
            SessionMessage(
                session=agent.session,
                agent=agent,
                message_id=0,
                role="user",
                text=text,
                message={"role": "user", "content": text},
            )
            for agent in agents
        ],
        batch_size=500,
    )
    return sessions


def begin(kind: str, user: Any, *, reason: str = "Case 7", **filters: Any) -> Operation:
    """Start an operation on the sessions that these filters match."""
    criteria = {"site": "admin", "filters": {name: [value] for name, value in filters.items()}}
    scope = Find(SECRET) if kind == Operation.Kind.REDACT else None
    return start(kind, user=user, criteria=criteria, reason=reason, scope=scope)


def carry_out(operation: Operation, **options: Any) -> Operation:
    """Run an operation that no process has, and return it."""
    ran = run(operation.pk, **options)
    assert ran is not None
    return ran


def expire(operation: Operation) -> None:
    """Make its process look dead."""
    long_ago = timezone.now() - timedelta(hours=1)
    Operation.objects.filter(pk=operation.pk).update(heartbeat_at=long_ago)
