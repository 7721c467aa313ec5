"""Export of sessions in the layout of Strands' file and S3 session managers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.core.exceptions import SuspiciousFileOperation
from django.utils import timezone

from django_agent_sessions import blobs
from django_agent_sessions.blobs import file_storage
from django_agent_sessions.content import dialects
from django_agent_sessions.content.message_references import is_window
from django_agent_sessions.db import bridge
from django_agent_sessions.exceptions import (
    BlobNotFoundError,
    InvalidIdError,
    PayloadError,
    SessionConflictError,
)
from django_agent_sessions.models import (
    MAIN_BRANCH,
    Session,
    SessionAgent,
    SessionMessage,
    SessionMultiAgent,
)
from django_agent_sessions.models.fields import CorruptPayload, decode_payload
from django_agent_sessions.models.stored_text import PAYLOAD_TEXT

from .row_pages import RowDict, each_message
from .sources import Skipped
from .strands_layout import Layout

_COLUMNS = ("message_id", "redacted_at", "created_at", "updated_at")
# Other errors, such as a temporarily unreadable binary, abort the session's export.
_PERMANENT = (InvalidIdError, PayloadError, BlobNotFoundError, SuspiciousFileOperation)
_REMOVED = "removed_message_count"


def export_strands_files(
    session: Session, layout: Layout, *, using: str | None = None
) -> Iterator[Skipped]:
    """Export a session as Strands' managers write it. The caller is responsible for the audit.

    ``session.json`` is written last, so that Strands ignores an incomplete export, which the next
    export overwrites.
    """
    alias = bridge.database(using)
    name, place = session.session_id, f"session {session.session_id!r}"
    if layout.read_session(name) is not None:
        raise SessionConflictError("a session with this id already exists")
    agents = SessionAgent.objects.using(alias).filter(session=session.pk)
    if agents.filter(dialect=dialects.STRANDS_NODE).exists():
        yield Skipped(
            f"{place}, nodes of graphs and swarms",
            "the file layout has only the latest message of each, in the orchestrator's state",
            error=False,
        )
    for agent in agents.exclude(dialect=dialects.STRANDS_NODE).order_by("pk"):
        where = f"{place}, agent {agent.agent_id!r}"
        if agent.dialect != dialects.STRANDS:
            yield Skipped(where, f"its messages are in the format {agent.dialect}", error=False)
            continue
        try:
            yield from _write_agent(layout, name, agent, where, alias)
        except _PERMANENT as error:
            yield Skipped(where, str(error))
    for orchestrator in SessionMultiAgent.objects.using(alias).filter(session=session.pk):
        where = f"{place}, orchestrator {orchestrator.multi_agent_id!r}"
        if isinstance(orchestrator.state, CorruptPayload):
            yield Skipped(where, "its state is corrupt")
            continue
        try:
            layout.write_multi_agent(name, orchestrator.multi_agent_id, orchestrator.state)
        except _PERMANENT as error:
            yield Skipped(where, str(error))
    layout.create_session(
        name,
        {
            "session_id": name,
            "session_type": session.session_type,
            "created_at": _time(session.created_at),
            "updated_at": _time(session.updated_at),
        },
    )


def has_strands_agent(session: UUID, *, using: str | None = None) -> bool:
    """Return whether a session has an agent, graph or swarm of Strands, or no agents."""
    alias = bridge.database(using)
    agents = SessionAgent.objects.using(alias).filter(session=session)
    found = set(agents.order_by().values_list("dialect", flat=True).distinct())
    return not found or not found.isdisjoint((dialects.STRANDS, dialects.STRANDS_NODE))


def _write_agent(
    layout: Layout, session_id: str, agent: SessionAgent, where: str, alias: str
) -> Iterator[Skipped]:
    rows = SessionMessage.objects.using(alias).filter(agent=agent.pk)
    states = {}
    for name in ("state", "conversation_manager_state", "internal_state"):
        value = getattr(agent, name)
        if isinstance(value, CorruptPayload):
            yield Skipped(f"{where}, {name}", "it is corrupt")
            value = {}
        states[name] = value
    window = agent.window
    if not is_window(window):
        yield Skipped(f"{where}, window", "it is corrupt")
        window = None
    document = {
        "agent_id": agent.agent_id,
        "state": states["state"],
        "conversation_manager_state": _conversation_manager_state(
            states["conversation_manager_state"], window, rows
        ),
        "_internal_state": states["internal_state"],
        "created_at": _time(agent.created_at),
        "updated_at": _time(agent.updated_at),
    }
    layout.write_agent(session_id, agent.agent_id, document)
    # Strands requires the folder even without messages.
    file_storage.make_folder(layout.storage, layout.names.messages(session_id, agent.agent_id))
    main = rows.filter(branch=MAIN_BRANCH)
    for row in each_message(main, "message_id", _COLUMNS, content=PAYLOAD_TEXT):
        number = row["message_id"]
        try:
            layout.write_message(
                session_id, agent.agent_id, number, _message(row, agent.session_id, alias)
            )
        except _PERMANENT as error:
            yield Skipped(f"{where}, message {number}", str(error))
    for branch in (
        rows.exclude(branch=MAIN_BRANCH)
        .order_by("branch")
        .values_list("branch", flat=True)
        .distinct()
    ):
        yield Skipped(
            f"{where}, branch {branch}",
            "the file layout can store only the main branch",
            error=False,
        )


def _message(row: RowDict, session: UUID, alias: str) -> dict[str, Any]:
    payload = decode_payload(row["content"])
    if isinstance(payload, CorruptPayload):
        raise PayloadError("it is corrupt")
    [payload] = blobs.restore_binaries(alias, session, [payload], dialects.STRANDS)
    return {
        # Only the redacted version of a redacted message is exported.
        "message": payload,
        "message_id": row["message_id"],
        "redact_message": None if row["redacted_at"] is None else payload,
        "created_at": _time(row["created_at"]),
        "updated_at": _time(row["updated_at"]),
    }


def _conversation_manager_state(state: Any, window: Any, rows: Any) -> Any:
    """Return a conversation manager's state with the number of messages before the window."""
    if not isinstance(state, dict) or not isinstance(window, dict) or _REMOVED not in state:
        return state
    before = rows.filter(branch=MAIN_BRANCH, message_id__lt=window["tail"])
    return {**state, _REMOVED: before.count()}


def _time(moment: datetime) -> str:
    aware = timezone.make_aware(moment) if timezone.is_naive(moment) else moment
    return aware.astimezone(UTC).isoformat()
