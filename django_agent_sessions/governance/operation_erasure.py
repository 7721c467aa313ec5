"""What operations on all matches store of a person: a filter, a name, the files of an export."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from django.utils import timezone

from django_agent_sessions.audit import MAX_REASON
from django_agent_sessions.blobs.export_files import delete_exports
from django_agent_sessions.content import masking
from django_agent_sessions.models import AuditEvent, Operation


def delete_exports_of(sessions: Any, *, owner: str, using: str) -> None:
    """Delete the files of all exports with one of these sessions; end those that are running."""
    with_files = Operation.objects.using(using).filter(files__gt=0)
    exported = AuditEvent.objects.using(using).filter(
        action=AuditEvent.Action.EXPORTED,
        target__in=list(with_files.values_list("pk", flat=True)),
        session__in=sessions.order_by().values("pk"),
    )
    rows = with_files.filter(pk__in=list(exported.values_list("target", flat=True).distinct()))
    over = [Operation.Status.DONE, Operation.Status.CANCELLED]
    cancelled = {
        "status": Operation.Status.CANCELLED,
        "finished_at": timezone.now(),
        "runner": None,
    }
    found = list(rows)
    rows.exclude(status__in=over).update(**cancelled)
    delete_exports(found, owner=owner)


def forget_person(key: str, names: Collection[str], pseudonym: str, *, using: str) -> None:
    """Delete the operations on a person's sessions, and pseudonymize those that the person started.

    The audit events of both stay.
    """
    rows = Operation.objects.using(using)
    for operation in rows.defer("found", "report"):
        if _names_person(operation.criteria.get("filters", {}), key, names):
            delete_exports([operation], owner=key)
            rows.filter(pk=operation.pk).delete()
        elif names and (masked := masking.mask_texts(operation.reason, names)) != operation.reason:
            rows.filter(pk=operation.pk).update(reason=masked[:MAX_REASON])
    rows.filter(started_by=key).update(started_by=pseudonym, started_by_name=pseudonym)


def _names_person(filters: Mapping[str, list[str]], key: str, names: Collection[str]) -> bool:
    values = [value.lower() for each in filters.values() for value in each]
    named = any(name.lower() in value for name in names for value in values)
    return named or key in filters.get("owner", ())
