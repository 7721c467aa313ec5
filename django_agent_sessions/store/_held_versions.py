"""Keep what an agent replaces under legal hold: each replaced version becomes a snapshot."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

from django.db import connections
from django.db.models import Max
from django.utils import timezone

from django_agent_sessions.blobs import restore_binaries
from django_agent_sessions.exceptions import BlobError
from django_agent_sessions.models import (
    MAIN_BRANCH,
    Session,
    SessionAgent,
    SessionMessage,
    SessionMultiAgent,
    Snapshot,
)
from django_agent_sessions.models.content_field import update_one
from django_agent_sessions.models.fields import CorruptPayload
from django_agent_sessions.models.querysets import RowQuerySet
from django_agent_sessions.values.ids import new_id
from django_agent_sessions.values.records import AgentState

from ._agent_states import window_to_references
from ._base import tracked_atomic
from ._queries import session_rows
from ._snapshot_documents import agent_document, orchestrator_document


def lock_without_key(using: str, session: UUID) -> Session | None:
    """Lock the session's row against holds and redactions, but not against new rows of it."""
    weaker = connections[using].features.has_select_for_no_key_update
    return session_rows(using).filter(pk=session).select_for_update(no_key=weaker).first()


def replace_state(
    using: str,
    session: UUID,
    rows: RowQuerySet[Any],
    content: Mapping[str, Any],
    *,
    epoch: int | None,
) -> int:
    """Replace the state of an agent or orchestrator, and keep the former under legal hold.

    Returns 0 if the row does not exist, or the session has another redaction epoch.
    """
    with tracked_atomic(using):
        locked = lock_without_key(using, session)
        row = None if locked is None else rows.first()
        if locked is None or row is None or epoch not in (None, locked.redaction_epoch):
            return 0
        if locked.legal_hold:
            keep_state(using, row, content)
        return update_one(rows, content, updated_at=timezone.now())


def keep_state(
    using: str, row: SessionAgent | SessionMultiAgent, content: Mapping[str, Any]
) -> None:
    """Keep a state as a snapshot, if the new content is another."""
    names = [name for name in type(row).content_columns.stored if name in content]
    if all(getattr(row, name) == content[name] for name in names):
        return
    if isinstance(row, SessionMultiAgent):
        document = orchestrator_document(_readable(row.state), timezone.now())
        _insert(using, row.session_id, document, [], 0, multi_agent_id=row.pk)
        return
    messages = SessionMessage.objects.using(using).filter(agent=row.pk, branch=MAIN_BRANCH)
    last = messages.aggregate(last=Max("message_id"))["last"]
    length = 0 if last is None else last + 1
    _insert(
        using,
        row.session_id,
        _document(row),
        window_to_references(row.window, length),
        length,
        agent_id=row.pk,
    )


def keep_snapshot(using: str, row: Snapshot | None, document: Any, messages: Any) -> None:
    """Keep a snapshot that is replaced, if content of it is not in the new one."""
    if row is None or _contains(document, messages, row):
        return
    _insert(
        using,
        row.session_id,
        _readable(row.document),
        _readable(row.messages),
        row.length,
        agent_id=row.agent_id,
        multi_agent_id=row.multi_agent_id,
        branch=row.branch,
        tail=row.tail,
    )


def keep_message(using: str, row: SessionMessage, dialect: str) -> None:
    """Keep the present version of a message, whose first version stays in its row."""
    payload = _readable(row.redact_message)
    # Of a lost file, the reference is what is left.
    with contextlib.suppress(BlobError):
        (payload,) = restore_binaries(using, row.session_id, [payload], dialect)
    earlier: list[Any] = [[0, row.message_id]] if row.message_id else []
    _insert(
        using,
        row.session_id,
        _document(SessionAgent.objects.using(using).get(pk=row.agent_id)),
        [*earlier, {"message": payload, "position": row.message_id}],
        row.message_id + 1,
        agent_id=row.agent_id,
        branch=row.branch,
        tail=row.pk,
    )


def keep_edited_messages(using: str, keys: Collection[UUID]) -> None:
    """Keep the versions of messages that agents edited under a hold, before they are redacted."""
    rows = SessionMessage.objects.using(using).filter(
        pk__in=keys,
        redacted_at__isnull=True,
        redact_message__isnull=False,
        session__legal_hold=True,
    )
    for row in rows.select_related("agent"):
        keep_message(using, row, row.agent.dialect)


def _insert(
    using: str, session: UUID, document: Any, messages: list[Any], length: int, **columns: Any
) -> None:
    key = new_id()
    Snapshot(
        id=key,
        session_id=session,
        snapshot_id=str(key),
        document=document,
        messages=messages,
        length=length,
        **columns,
    ).save(using=using, force_insert=True)


def _document(row: SessionAgent) -> dict[str, Any]:
    state = AgentState(*map(_readable, _states(row)))
    document = agent_document(state, timezone.now())
    if isinstance(state.internal_state, Mapping):
        document["data"] |= state.internal_state
    return document


def _states(row: SessionAgent) -> tuple[Any, Any, Any]:
    return row.state, row.conversation_manager_state, row.internal_state


def _contains(document: Any, messages: Any, row: Snapshot) -> bool:
    def content(value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        return {key: part for key, part in value.items() if key != "created_at"}

    own = [item for item in row.messages if not isinstance(item, list)]
    return content(document) == content(row.document) and all(item in messages for item in own)


def _readable(value: Any) -> Any:
    return value.text if isinstance(value, CorruptPayload) else value
