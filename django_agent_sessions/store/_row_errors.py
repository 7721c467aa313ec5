"""The errors of rows that were deleted, or whose columns cannot be read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from django_agent_sessions.content.message_references import end_of_references, is_window
from django_agent_sessions.exceptions import SessionNotFoundError, UnreadableStateError
from django_agent_sessions.models import SessionAgent, SessionMultiAgent, Snapshot
from django_agent_sessions.models.fields import CorruptPayload
from django_agent_sessions.values.state_columns import STATES


def agent_deleted(what: str, session: UUID) -> SessionNotFoundError:
    """Return the error of a write to an agent that does not exist any more."""
    return SessionNotFoundError(
        f"{what}: the agent or its session {session} was deleted; open it again to create a new one"
    )


def corrupt_columns(row: Any, *names: str) -> list[str]:
    """Return those of some columns of a row that cannot be read."""
    return [name for name in names if _is_corrupt(name, getattr(row, name))]


def _is_corrupt(name: str, value: Any) -> bool:
    if name == "window":
        return not is_window(value)
    if name == "messages":
        return end_of_references(value) is None
    return isinstance(value, CorruptPayload)


def corrupt_state(what: str, row: Any, columns: Sequence[str] = ("state",)) -> str:
    """Return what an ``UnreadableStateError`` says of a row."""
    return (
        f"the state of {what} (row {row.id}) of session {row.session_id} is corrupt "
        f"({', '.join(columns)}): restore it from a backup, or set it to an empty value; see "
        "corrupt-state in the documentation's page on integrity"
    )


def refuse_unreadable(what: str, row: SessionAgent | Snapshot | None) -> None:
    """Raise ``UnreadableStateError`` if a state that is to be copied or replaced is corrupt."""
    names = STATES if isinstance(row, SessionAgent) else ("document", "messages")
    if row is not None and (columns := corrupt_columns(row, *names)):
        raise UnreadableStateError(corrupt_state(what, row, columns))


def readable_orchestrator(rows: QuerySet[SessionMultiAgent]) -> Any:
    """Return the state of an orchestrator, or None; raise ``UnreadableStateError`` if corrupt."""
    row = rows.first()
    if row is None:
        return None
    refuse_unreadable_orchestrator(row)
    return row.state


def refuse_unreadable_orchestrator(row: SessionMultiAgent) -> None:
    """Raise ``UnreadableStateError`` if the state of an orchestrator is corrupt."""
    if corrupt_columns(row, "state"):
        raise UnreadableStateError(corrupt_state(f"orchestrator {row.multi_agent_id!r}", row))
