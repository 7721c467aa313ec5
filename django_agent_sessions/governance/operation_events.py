"""The audit events of an operation as a whole; each of its sessions has events of its own."""

from __future__ import annotations

from typing import Any

from django_agent_sessions import audit
from django_agent_sessions.models import AuditEvent, Operation


def record_operation(operation: Operation, actor: Any, using: str, **details: Any) -> None:
    """Write the event of the start or the end of an operation."""
    audit.record_checked(
        AuditEvent.Action.OPERATION,
        target=operation.pk,
        actor=actor,
        reason=operation.reason,
        details={"operation": str(operation.kind), **details},
        using=using,
    )


def record_end(operation: Operation, state: str, actor: Any, using: str) -> None:
    """Write the event of the end of an operation, with its counts."""
    names = ("done", "unchanged", "skipped", "failed")
    counts = {name: count for name in names if (count := getattr(operation, name))}
    record_operation(operation, actor, using, state=state, **counts)
