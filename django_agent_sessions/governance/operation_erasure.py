"""What operations on all matches store of a person: a filter, a name, the files of an export."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from django_agent_sessions import audit
from django_agent_sessions.audit import MAX_REASON
from django_agent_sessions.blobs.export_files import delete_exports
from django_agent_sessions.content import masking
from django_agent_sessions.models import AuditEvent, Operation
from django_agent_sessions.models.querysets import groups_of_keys

from .operation_events import record_end

_OVER = (Operation.Status.DONE, Operation.Status.CANCELLED)
MASKED = "masked"
"""The key in the criteria of the filters that redactions have masked while others were needed."""

_FREE_FILTERS = frozenset({"assignee", "label", "agent", "namespace"})
_METADATA = "metadata_"


def delete_exports_of(sessions: Collection[UUID], *, person: str, actor: Any, using: str) -> None:
    """Delete the files of all exports with one of these sessions; end those that are running."""
    with_files = Operation.objects.using(using).filter(files__gt=0)
    targets = list(with_files.values_list("pk", flat=True))
    exported = AuditEvent.objects.using(using).filter(
        action=AuditEvent.Action.EXPORTED, target__in=targets
    )
    keys: set[Any] = set()
    for group in groups_of_keys(list(sessions)) if targets else ():
        keys.update(exported.filter(session__in=group).values_list("target", flat=True))
    found = list(with_files.filter(pk__in=keys))
    cancelled = {
        "status": Operation.Status.CANCELLED,
        "finished_at": timezone.now(),
        "runner": None,
    }
    with transaction.atomic(using):
        for operation in _lock_unfinished(found, using):
            Operation.objects.using(using).filter(pk=operation.pk).update(**cancelled)
            record_end(operation, "cancelled", actor, using)
    mask_ended_filters([operation.pk for operation in found], using=using)
    delete_exports(found, person=person)


def _lock_unfinished(operations: Collection[Operation], using: str) -> list[Operation]:
    rows = Operation.objects.using(using).filter(pk__in=[each.pk for each in operations])
    return list(rows.exclude(status__in=_OVER).order_by("pk").select_for_update())


def forget_person(
    key: str, names: Collection[str], pseudonym: str, *, actor: Any, using: str
) -> None:
    """Delete the operations on a person's sessions, and pseudonymize those that the person started.

    The audit events of both stay.
    """
    rows = Operation.objects.using(using)
    for operation in rows.defer("found", "report"):
        if _names_person(operation.criteria.get("filters", {}), key, names):
            delete_exports([operation], person=key)
            with transaction.atomic(using):
                for running in _lock_unfinished([operation], using):
                    running.reason = _masked_reason(running, names, words=True)
                    record_end(running, "cancelled", actor, using)
                rows.filter(pk=operation.pk).delete()
        elif names:
            _mask_reason(operation, names, words=True)
    rows.filter(started_by=key).update(started_by=pseudonym, started_by_name=pseudonym)


def mask_operations(session: UUID, secrets: Collection[str], *, using: str) -> int:
    """Mask texts, which were redacted in a session, in the operations that changed it.

    In their reasons and filters. The filters of one that is not over are masked beside those that
    it needs, which :func:`mask_ended_filters` replaces. Returns the number of changed operations.
    """
    if not secrets:
        return 0
    rows = Operation.objects.using(using).filter(pk__in=audit.operations_on(session, using=using))
    count = 0
    for operation in rows.defer("found", "report"):
        is_changed = _mask_reason(operation, secrets)
        is_changed |= _mask_filters(operation, secrets)
        count += is_changed
    return count


def mask_ended_filters(operations: Collection[UUID], *, using: str) -> None:
    """Replace the filters of operations that are over by those that redactions have masked."""
    rows = Operation.objects.using(using).filter(pk__in=operations).only("criteria")
    with transaction.atomic(using):
        for operation in rows.select_for_update():
            criteria = operation.criteria
            if MASKED in criteria:
                _update(operation, "criteria", _ended(criteria, criteria[MASKED]))


def shown_filters(operation: Operation) -> dict[str, list[str]]:
    """Return the filters to show, as redactions have masked them."""
    criteria = operation.criteria
    filters: dict[str, list[str]] = criteria.get(MASKED) or criteria.get("filters", {})
    return filters


def _mask_reason(operation: Operation, texts: Collection[str], *, words: bool = False) -> bool:
    return _update(operation, "reason", _masked_reason(operation, texts, words=words))


def _masked_reason(operation: Operation, texts: Collection[str], *, words: bool) -> str:
    masked: str = masking.mask_texts(operation.reason, texts, words=words)
    return masked[:MAX_REASON]


def _mask_filters(operation: Operation, texts: Collection[str]) -> bool:
    filters = shown_filters(operation)
    masked = {
        name: masking.mask_texts(values, texts) if _is_free(name) else values
        for name, values in filters.items()
    }
    if masked == filters:
        return False
    rows = Operation.objects.using(operation._state.db).filter(pk=operation.pk)
    over = _ended(operation.criteria, masked)
    if rows.filter(status__in=_OVER).update(criteria=over):
        return True
    # It may end meanwhile: then this waits for its end, and is too late.
    unfinished = {**operation.criteria, MASKED: masked}
    if rows.exclude(status__in=_OVER).update(criteria=unfinished):
        return True
    return bool(rows.update(criteria=over))


def _ended(criteria: Mapping[str, Any], filters: Any) -> dict[str, Any]:
    others = {name: value for name, value in criteria.items() if name != MASKED}
    return {**others, "filters": filters}


def _update(operation: Operation, column: str, value: Any) -> bool:
    if getattr(operation, column) == value:
        return False
    rows = Operation.objects.using(operation._state.db).filter(pk=operation.pk)
    return bool(rows.update(**{column: value}))


def _names_person(filters: Mapping[str, list[str]], key: str, names: Collection[str]) -> bool:
    values = [value for name, each in filters.items() if _is_free(name) for value in each]
    return (
        key in filters.get("owner", ()) or masking.mask_texts(values, names, words=True) != values
    )


def _is_free(name: str) -> bool:
    """Return whether users choose the values of a filter; the others are words of this package."""
    return name in _FREE_FILTERS or name.startswith(_METADATA)
