"""Replace the content of a stored message."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F, OuterRef, QuerySet, Subquery, Value

from django_agent_sessions.blobs import Uploads, is_enabled, update_references
from django_agent_sessions.content import codec
from django_agent_sessions.db.retries import tracked_atomic
from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.values.records import AgentRecord

from ._counters import recounting
from ._held_copies import overwrite_message
from ._queries import lock_session_row
from ._rows import MessageRow

_SESSION_CHANGE = Subquery(Session.objects.filter(pk=OuterRef("session")).values("change"))


def _replacing_columns(row: MessageRow, key: UUID | None, session: UUID) -> dict[str, Any]:
    """Return the updated columns of a replaced message, which stays redacted if it was."""
    field: Any = SessionMessage._meta.get_field("message")
    return {
        "message": Value(field.sealed(key, row.stored, session), output_field=field),
        "revision": F("revision") + 1,
        "change": _SESSION_CHANGE,
        **row.neutral_columns(),
    }


def _replace(
    using: str, agent: AgentRecord, rows: QuerySet[SessionMessage], row: MessageRow
) -> int:
    """Replace one message, and count it if it became or stopped being an error."""
    has_error = row.neutral_columns()["has_error"]
    if updated := _replace_version(using, agent, rows.filter(has_error=has_error), row):
        return updated
    with tracked_atomic(using):
        lock_session_row(using, agent.session)
        others = rows.exclude(has_error=has_error)
        if not others.exists():
            return 0
        with recounting(using, agent):
            return _replace_version(using, agent, others, row)


def _replace_version(
    using: str, agent: AgentRecord, rows: QuerySet[SessionMessage], row: MessageRow
) -> int:
    def overwrite(rows: QuerySet[SessionMessage]) -> int:
        return _write(rows, row, agent.session)

    return overwrite_message(using, agent.session, rows, overwrite)


def _write(rows: QuerySet[SessionMessage], row: MessageRow, session: UUID) -> int:
    key = None
    if not codec.is_plain():
        key = rows.values_list("pk", flat=True).first()
        if key is None:
            return 0
        rows = rows.filter(pk=key)
    return rows.update(**_replacing_columns(row, key, session))


def update_row(
    using: str,
    agent: AgentRecord,
    rows: QuerySet[SessionMessage],
    row: MessageRow,
    uploads: Uploads,
) -> int:
    """Replace one message and the binaries that it references."""
    if not uploads and not is_enabled():
        return _replace(using, agent, rows, row)
    with tracked_atomic(using):
        lock_session_row(using, agent.session)
        uploads.store()
        key = rows.values_list("pk", flat=True).first()
        updated = _replace(using, agent, rows, row)
        if key is not None and updated:
            update_references(using, agent.session, [key])
        else:
            transaction.set_rollback(True, using)
    if not updated:
        uploads.discard()
    return updated
