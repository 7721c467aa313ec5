"""Keep what agents and guardrails overwrite under legal hold, until the hold is released."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping
from typing import Any
from uuid import UUID

from django.db import connections
from django.db.models import Exists, Model, OuterRef, QuerySet
from django.utils import timezone

from django_agent_sessions.blobs import restore_binaries
from django_agent_sessions.db.retries import tracked_atomic
from django_agent_sessions.exceptions import BlobError
from django_agent_sessions.models import HeldCopy, Session, SessionMessage
from django_agent_sessions.models.content_columns import content_columns_of
from django_agent_sessions.models.content_field import sealed_columns, update_one
from django_agent_sessions.models.deletion import ENCRYPTED
from django_agent_sessions.models.fields import CorruptPayload
from django_agent_sessions.sql.holds import free_at_epoch
from django_agent_sessions.sql.triggers import permit_change

_UNDER_HOLD = Exists(Session.objects.filter(pk=OuterRef("session"), legal_hold=True))


def _lock_without_key(using: str, session: UUID) -> Session | None:
    """Lock the session's row against holds and redactions, but not against new rows of it."""
    weaker = connections[using].features.has_select_for_no_key_update
    rows = Session.objects.using(using).filter(pk=session).select_for_update(no_key=weaker)
    return rows.defer(*ENCRYPTED).first()


def replace_state(
    using: str,
    session: UUID,
    rows: QuerySet[Any],
    content: Mapping[str, Any],
    *,
    epoch: int | None,
    key: UUID | None = None,
) -> int:
    """Replace the state of an agent or orchestrator, and keep the former under legal hold.

    Returns 0 if the row does not exist, or the session has another redaction epoch. With its
    ``key``, the row is not read to seal the state.
    """
    free = rows.filter(session__in=free_at_epoch(using, session, epoch))
    if updated := _update(free, session, content, key):
        return updated
    with tracked_atomic(using):
        locked = _lock_without_key(using, session)
        if locked is None or epoch not in (None, locked.redaction_epoch):
            return 0
        keep(using, locked, rows, content)
        return _update(rows, session, content, key)


def _update(
    rows: QuerySet[Any], session: UUID, content: Mapping[str, Any], key: UUID | None
) -> int:
    now = timezone.now()
    if key is None:
        return update_one(rows, content, updated_at=now)
    return rows.update(**sealed_columns(rows.model, key, content, session), updated_at=now)


def overwrite_message(
    using: str,
    session: UUID,
    rows: QuerySet[SessionMessage],
    overwrite: Callable[[QuerySet[SessionMessage]], int],
) -> int:
    """Overwrite a message, and keep the former under legal hold; return the number of rows."""
    if updated := overwrite(rows.exclude(_UNDER_HOLD)):
        return updated
    with tracked_atomic(using):
        locked = _lock_without_key(using, session)
        key = rows.values_list("pk", flat=True).first()
        if locked is None or key is None:
            return 0
        keep_messages(using, locked, [key])
        return overwrite(rows)


def keep(using: str, session: Session, rows: QuerySet[Any], new: Mapping[str, Any]) -> None:
    """Keep the columns of a row that are overwritten, if its locked session is under hold."""
    if not session.legal_hold or (row := rows.first()) is None:
        return
    before = {name: _readable(getattr(row, name)) for name in new}
    if lost := {name: value for name, value in before.items() if _has_other(value, new[name])}:
        _insert(using, session.pk, row, lost)


def keep_messages(using: str, session: Session, keys: Collection[UUID]) -> None:
    """Keep messages as they are, with their binaries, if their locked session is under hold."""
    if not session.legal_hold:
        return
    rows = SessionMessage.objects.using(using).filter(pk__in=keys).order_by("pk")
    for row in rows.select_related("agent"):
        payload = _readable(row.message)
        # Of a lost file, the reference is what is left.
        with contextlib.suppress(BlobError):
            (payload,) = restore_binaries(using, row.session_id, [payload], row.agent.dialect)
        _insert(using, row.session_id, row, {"message": payload})


def _insert(using: str, session: UUID, row: Model, content: Mapping[str, Any]) -> None:
    HeldCopy(
        session_id=session, kind=content_columns_of(row).kind, row=row.pk, content=dict(content)
    ).save(using=using, force_insert=True)
    permit_change(using, [session])


def _has_other(before: Any, new: Any) -> bool:
    """Return whether a value has content besides a snapshot's time and references to messages."""
    if isinstance(before, list) and isinstance(new, list):
        return any(item not in new for item in before if not isinstance(item, list))
    if isinstance(before, Mapping) and isinstance(new, Mapping):
        return {**before, "created_at": None} != {**new, "created_at": None}
    return bool(before != new)


def _readable(value: Any) -> Any:
    return value.text if isinstance(value, CorruptPayload) else value
