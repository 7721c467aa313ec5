"""Start, cancel and resume operations."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Q
from django.utils import timezone
from django.views.decorators.debug import sensitive_variables

from django_agent_sessions import audit
from django_agent_sessions.blobs.export_files import (
    delete_export,
    delete_parts_after_commit,
    storage_alias,
)
from django_agent_sessions.content import codec
from django_agent_sessions.content.codec import Owned
from django_agent_sessions.db import bridge, connection_state
from django_agent_sessions.db.loop_guard import sync_only
from django_agent_sessions.exceptions import ConfigurationError, RedactionScopeError
from django_agent_sessions.governance import reasons
from django_agent_sessions.governance.operation_erasure import mask_ended_filters
from django_agent_sessions.governance.operation_events import record_end, record_operation
from django_agent_sessions.governance.redaction import Detect, Find
from django_agent_sessions.models import Operation
from django_agent_sessions.models.access import reach_of
from django_agent_sessions.models.operation import LEASE
from django_agent_sessions.models.permissions import OPERATION_PERMISSIONS

_SCOPE = "agent_sessions_operation.scope"
_Status = Operation.Status


@sensitive_variables()
@sync_only
def start(
    kind: str,
    *,
    user: Any,
    criteria: Mapping[str, Any],
    reason: str = "",
    found: Collection[UUID] | None = None,
    scope: Find | Detect | None = None,
    using: str | None = None,
) -> Operation:
    """Store and record an operation, which :func:`run` then carries out.

    Args:
        kind: A value of ``Operation.Kind``.
        user: The user whose permissions apply, also while it runs.
        criteria: The filters, as the function of :func:`define_matches` reads them.
        reason: The reason, by the rule of the action.
        found: The sessions that a search found; None without a search.
        scope: What to redact, in the whole session.
        using: The database alias.

    Raises:
        PermissionDenied: The user may do this to no session.
        ReasonError: The reason is missing or too long.
    """
    if not reach_of(user, *OPERATION_PERMISSIONS[kind]):
        raise PermissionDenied
    if kind == Operation.Kind.EXPORT and storage_alias() is None:
        raise ConfigurationError("an export of all matches requires the setting EXPORT_STORAGE")
    if (scope is not None) != (kind == Operation.Kind.REDACT):
        raise RedactionScopeError("a redaction, and only a redaction, requires a scope")
    reason = reasons.clean_reason(
        reasons.OPERATION_ACTIONS[kind], reason, what="an operation on all matches"
    )
    secrets = [scope.text] if isinstance(scope, Find) else []
    operation = Operation(
        kind=kind,
        started_by=str(user.pk),
        started_by_name=audit.actor_name(user),
        reason=audit.mask_reason(reason, secrets),
        criteria=dict(criteria),
        found=None if found is None else sorted(map(str, found)),
    )
    operation.scope = "" if scope is None else _seal(operation, scope)
    alias = bridge.database(using)
    connection_state.require_commits(alias)
    with transaction.atomic(alias):
        operation.save(using=alias, force_insert=True)
        record_operation(operation, user, alias, state="started")
    return operation


def scope_of(operation: Operation) -> Find | Detect:
    """Return what a redaction is for."""
    values = json.loads(codec.open_stored(operation.pk, _SCOPE, operation.scope))
    return Find(values["text"]) if "text" in values else Detect(tuple(values["detectors"]))


def _seal(operation: Operation, scope: Find | Detect) -> str:
    values = {"text": scope.text} if isinstance(scope, Find) else {"detectors": [*scope.names]}
    return codec.seal(operation.pk, _SCOPE, json.dumps(values), Owned(None))


@sync_only
def cancel(operation: Operation, *, actor: Any = None) -> bool:
    """End an operation; completed work is not undone. Returns False if it was over."""
    alias = operation._state.db or bridge.database()
    with transaction.atomic(alias):
        rows = _rows(alias, operation).exclude(status__in=[_Status.DONE, _Status.CANCELLED])
        if (current := rows.select_for_update().only("files").first()) is not None:
            delete_parts_after_commit(current, alias)
        # The running process finds that it is not its operation any longer.
        cancelled = rows.update(
            status=_Status.CANCELLED, finished_at=timezone.now(), runner=None, scope="", files=0
        )
        if cancelled:
            mask_ended_filters([operation.pk], using=alias)
            operation.refresh_from_db(using=alias)
            record_end(operation, "cancelled", actor, alias)
    if cancelled:
        delete_export(operation)
    return bool(cancelled)


@sync_only
def resume(operation: Operation) -> bool:
    """Let a stopped operation wait for a process again. Returns False if it is running or over."""
    alias = operation._state.db or bridge.database()
    rows = _rows(alias, operation).filter(free(timezone.now()))
    return bool(rows.update(status=_Status.WAITING, runner=None, problem=""))


def free(now: Any) -> Q:
    """Return the condition for operations that a process may take."""
    waiting = Q(status__in=[_Status.WAITING, _Status.STOPPED])
    return waiting | Q(status=_Status.RUNNING, heartbeat_at__lte=now - LEASE)


def _rows(using: str, operation: Operation) -> Any:
    return Operation.objects.using(using).filter(pk=operation.pk)
