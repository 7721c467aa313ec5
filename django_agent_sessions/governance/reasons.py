"""The reason of an action: whether it is required, and how long it may be.

Pages, the API, commands and services ask here, so that they have the same rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from django_agent_sessions import conf
from django_agent_sessions.audit import MAX_REASON
from django_agent_sessions.exceptions import ReasonError, ReasonRequiredError
from django_agent_sessions.models import AuditEvent, Operation

ACTIONS: Final = frozenset(
    {
        AuditEvent.Action.REDACTED,
        AuditEvent.Action.HELD,
        AuditEvent.Action.RELEASED,
        AuditEvent.Action.EXPORTED,
        AuditEvent.Action.DELETED,
        AuditEvent.Action.FORKED,
        AuditEvent.Action.REWOUND,
        AuditEvent.Action.RESTORED,
        AuditEvent.Action.BRANCH_DELETED,
        AuditEvent.Action.ERASED,
    }
)
"""The actions that have a reason; the setting ``REASON_REQUIRED`` names those that require one."""

OPERATION_ACTIONS: Final[Mapping[str, AuditEvent.Action]] = {
    Operation.Kind.EXPORT: AuditEvent.Action.EXPORTED,
    Operation.Kind.HOLD: AuditEvent.Action.HELD,
    Operation.Kind.RELEASE: AuditEvent.Action.RELEASED,
    Operation.Kind.REDACT: AuditEvent.Action.REDACTED,
    Operation.Kind.DELETE: AuditEvent.Action.DELETED,
}
"""The action whose rule for reasons an operation on all matches has."""


def is_required(action: AuditEvent.Action) -> bool:
    """Return whether the action requires a reason."""
    return action.value in conf.get_settings().REASON_REQUIRED


def clean_reason(action: AuditEvent.Action, reason: str | None, *, what: str = "") -> str:
    """Return the reason without surrounding whitespace; raise ``ReasonError`` if it is invalid.

    ``what`` names the action and its session in the error.
    """
    text = (reason or "").strip()
    prefix = f"{what}: " if what else ""
    if not text and is_required(action):
        raise ReasonRequiredError(f"{prefix}a reason is required for the action {action.value!r}")
    if len(text) > MAX_REASON:
        raise ReasonError(
            f"{prefix}the reason for the action {action.value!r} has more than {MAX_REASON} "
            "characters"
        )
    return text
