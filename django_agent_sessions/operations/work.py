"""What an operation does to a batch of sessions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from tempfile import TemporaryFile
from typing import IO, Any
from uuid import UUID

from django.db.models import QuerySet

from django_agent_sessions import audit
from django_agent_sessions.blobs.export_files import write_parts
from django_agent_sessions.content.work_budget import WorkBudget, limit_work
from django_agent_sessions.exceptions import (
    AgentSessionsError,
    LegalHoldError,
    SessionConflictError,
    SessionNotFoundError,
)
from django_agent_sessions.governance import legal_hold, session_deletion
from django_agent_sessions.governance.redaction import redact
from django_agent_sessions.governance.redaction.visibility import staff_visibility
from django_agent_sessions.governance.session_change import SessionChange, last_step
from django_agent_sessions.interchange import export_sessions
from django_agent_sessions.models import AuditEvent, Operation, Session, deletion
from django_agent_sessions.models.access import reach_of
from django_agent_sessions.models.permissions import REVIEWING
from django_agent_sessions.models.removal import check_removable, may_remove
from django_agent_sessions.models.session_names import by_key
from django_agent_sessions.queries.matching import reviewable_by, starter_of

from .control import scope_of

logger = logging.getLogger("django_agent_sessions")

HELD, GONE, CHANGED = "held", "gone", "changed"
"""Codes of sessions that are skipped: under legal hold, deleted, no longer a match."""

_REDACTION_SECONDS, _REDACTION_BYTES = 30, 1024**3
"""The work of one redaction: less time than the lease, which is renewed after each session."""


@dataclass
class BatchOutcome:
    """What became of a batch of sessions."""

    done: int = 0
    unchanged: int = 0
    skipped: list[tuple[UUID, str]] = field(default_factory=list)
    failed: list[tuple[UUID, str]] = field(default_factory=list)
    files: int = 0
    exported: dict[UUID, int] = field(default_factory=dict)
    """The exported sessions with the redaction epochs that they had before they were read."""


class AccessLostError(Exception):
    """The user who started the operation may no longer do this."""


class NoLongerMatchesError(Exception):
    """The session was changed since it was found."""


Advance = Callable[[UUID, BatchOutcome], None]
"""Moves the cursor to a session, in the open transaction."""


@dataclass(frozen=True)
class SessionBatch:
    """Sessions for one transaction."""

    operation: Operation
    sessions: QuerySet[Session]
    """All sessions that match now."""
    keys: Sequence[UUID]
    is_large: bool = False

    @property
    def using(self) -> str:
        return str(self.operation._state.db)

    def locked(self, outcome: BatchOutcome) -> list[Session]:
        """Lock the sessions; skip those that were deleted or changed since they were found."""
        found = Session.objects.using(self.using).filter(pk__in=self.keys).order_by("pk")
        rows = list(found.select_for_update().defer(*deletion.ENCRYPTED))
        matching = set(self.sessions.filter(pk__in=self.keys).values_list("pk", flat=True))
        gone = set(self.keys) - {row.pk for row in rows}
        outcome.skipped += [(key, GONE) for key in sorted(gone)]
        outcome.skipped += [(row.pk, CHANGED) for row in rows if row.pk not in matching]
        return [row for row in rows if row.pk in matching]


def split(operation: Operation, keys: list[UUID]) -> Iterator[tuple[list[UUID], bool]]:
    """Split sessions into those of one transaction each, with whether it is one large session."""
    if operation.kind == Operation.Kind.DELETE:
        rows = Session.objects.using(operation._state.db)
        yield from deletion.groups(rows, keys)
    elif operation.kind == Operation.Kind.REDACT:
        yield from (([key], False) for key in keys)
    else:
        yield keys, False


def set_hold(batch: SessionBatch) -> BatchOutcome:
    """Put the sessions under legal hold, or release them."""
    outcome, operation = BatchOutcome(), batch.operation
    is_hold = operation.kind == Operation.Kind.HOLD
    rows = batch.locked(outcome)
    changed = [row for row in rows if row.legal_hold != is_hold]
    if changed:
        legal_hold.set_locked(changed, is_hold, using=batch.using)
    outcome.done, outcome.unchanged = len(changed), len(rows) - len(changed)
    return outcome


def delete(batch: SessionBatch) -> BatchOutcome:
    """Delete the sessions that are not under legal hold."""
    outcome = BatchOutcome()
    rows = batch.locked(outcome)
    outcome.skipped += [(row.pk, HELD) for row in rows if not may_remove(row)]
    if free := [row for row in rows if may_remove(row)]:
        _delete(free, batch)
        outcome.done = len(free)
    return outcome


def _delete(sessions: Sequence[Session], batch: SessionBatch) -> None:
    if batch.is_large:
        # Mostly after the commit.
        deletion.delete_after_commit(sessions[0], batch.using)
        return
    details = {session.pk: {"messages": session.message_count} for session in sessions}
    audit.record_all(AuditEvent.Action.DELETED, details, using=batch.using)
    session_deletion.delete_group(sessions, batch.using)


def redact_one(batch: SessionBatch, advance: Advance) -> None:
    """Redact a session, and move the cursor in the transaction of its change."""
    (key,) = batch.keys
    rows = Session.objects.using(batch.using).filter(pk=key)
    check_removable(rows)
    if (user := starter_of(batch.operation)) is None:
        raise AccessLostError

    def step(change: SessionChange) -> None:
        if not batch.sessions.filter(pk=key).exists():
            raise NoLongerMatchesError
        advance(key, BatchOutcome(done=1) if change.changed else BatchOutcome(unchanged=1))

    budget = WorkBudget(_REDACTION_SECONDS, _REDACTION_BYTES, "Redact this session alone.")
    with last_step(step), limit_work(budget):
        operation = batch.operation
        redact(
            by_key(key),
            scope_of(operation),
            reason=operation.reason,
            visibility=staff_visibility(reach_of(user, *REVIEWING)),
            using=batch.using,
        )


def export(batch: SessionBatch, beat: Callable[[], None]) -> BatchOutcome:
    """Write the sessions to files; :func:`record_export` then records them."""
    outcome = BatchOutcome(files=batch.operation.files)
    matching = batch.sessions.filter(pk__in=batch.keys)
    outcome.exported = dict(matching.values_list("pk", "redaction_epoch"))
    reviewable = reviewable_by(batch.operation).among(Session(pk=key) for key in batch.keys)
    with TemporaryFile() as file:
        for key in batch.keys:
            beat()
            _write(batch, key, file, outcome, reviews=key in reviewable)
        file.seek(0)
        for number in write_parts(batch.operation.pk, outcome.files, file):
            outcome.files = number
            beat()
    return outcome


def record_export(batch: SessionBatch, outcome: BatchOutcome) -> None:
    """Record the export of each session, in the transaction that makes the files count.

    Raises ``SessionConflictError`` if one was deleted, redacted or rewound since it was read: an
    erasure or a redaction that is over by now must not be missing in the files.
    """
    rows = batch.locked(BatchOutcome())
    now = {row.pk: row.redaction_epoch for row in rows if row.pk in outcome.exported}
    if now != outcome.exported:
        raise SessionConflictError("sessions were changed while they were exported")
    details = {key: {"format": "jsonl"} for key in batch.keys if key in now}
    audit.record_all(AuditEvent.Action.EXPORTED, details, using=batch.using)


def _write(
    batch: SessionBatch, key: UUID, file: IO[bytes], outcome: BatchOutcome, *, reviews: bool
) -> None:
    if key not in outcome.exported:
        is_there = Session.objects.using(batch.using).filter(pk=key).exists()
        outcome.skipped.append((key, CHANGED if is_there else GONE))
        return
    start = file.tell()
    try:
        for text in export_sessions([Session(pk=key)], using=batch.using, reviews=reviews):
            file.write(text.encode())
    except AgentSessionsError as error:
        file.truncate(start)
        file.seek(start)
        outcome.failed.append((key, type(error).__name__))
        del outcome.exported[key]
        return
    if file.tell() == start:
        outcome.skipped.append((key, GONE))
        del outcome.exported[key]
    else:
        outcome.done += 1


def left_out(key: UUID, error: Exception) -> BatchOutcome:
    """Return the outcome of one session that could not be changed."""
    if isinstance(error, LegalHoldError):
        return BatchOutcome(skipped=[(key, HELD)])
    if isinstance(error, SessionNotFoundError):
        return BatchOutcome(skipped=[(key, GONE)])
    if isinstance(error, NoLongerMatchesError):
        return BatchOutcome(skipped=[(key, CHANGED)])
    # Without the text, which may be the database's and quote content.
    logger.warning("Session %s failed: %s", key, type(error).__name__)
    return BatchOutcome(failed=[(key, type(error).__name__)])


def entries(outcome: BatchOutcome) -> list[Any]:
    """Return the lines of the report, which are JSON."""
    parts: Collection[tuple[str, list[tuple[UUID, str]]]] = (
        ("skipped", outcome.skipped),
        ("failed", outcome.failed),
    )
    return [[str(key), how, code] for how, rows in parts for key, code in rows]
