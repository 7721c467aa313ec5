"""Carry out operations: one process at a time, in batches, with the cursor in each transaction."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import InterfaceError, OperationalError
from django.db.models import F, QuerySet
from django.utils import timezone

from django_agent_sessions import audit
from django_agent_sessions.blobs.export_files import (
    delete_expired_exports,
    delete_export,
    delete_uncounted_parts,
)
from django_agent_sessions.db import bridge, connection_state
from django_agent_sessions.db.loop_guard import sync_only
from django_agent_sessions.db.retries import tracked_atomic, write
from django_agent_sessions.exceptions import SessionConflictError
from django_agent_sessions.governance.operation_erasure import mask_ended_filters
from django_agent_sessions.governance.operation_events import record_end
from django_agent_sessions.models import Operation, Session
from django_agent_sessions.queries.matching import sessions_of
from django_agent_sessions.values.ids import new_id

from . import work
from .control import free
from .work import AccessLostError, BatchOutcome, SessionBatch

__all__ = ["run", "run_waiting"]

MAX_REPORT = 1000
"""Sessions that the report names; all are counted."""

MAX_COUNTED = 1_000_000
"""Sessions that are counted for the progress."""

_BATCHES = {Operation.Kind.DELETE: 50, Operation.Kind.REDACT: 20}
_BATCH = 100
_BEAT = timedelta(seconds=10)
_VIA = "operation"

_Status = Operation.Status
logger = logging.getLogger("django_agent_sessions")


class _NotOursError(Exception):
    """The operation was cancelled, or another process has taken it."""


@sync_only
def run(
    operation: UUID,
    *,
    seconds: float | None = None,
    progress: Callable[[Operation], None] | None = None,
    using: str | None = None,
) -> Operation | None:
    """Carry out an operation until it is over; return None if it is running or over already.

    Call it outside of a transaction.

    Args:
        operation: Primary key of the operation.
        seconds: Begin no batch after this time; the operation waits for another call.
        progress: Called after each batch.
        using: The database alias.
    """
    alias, token, now = bridge.database(using), new_id(), timezone.now()
    connection_state.require_commits(alias)
    rows = Operation.objects.using(alias).filter(pk=operation)
    taken = rows.filter(free(now)).update(
        status=_Status.RUNNING, runner=token, heartbeat_at=now, problem=""
    )
    if not taken:
        return None
    ends = None if seconds is None else time.monotonic() + seconds
    runner = _Runner(alias, token, rows.get(), ends, progress or (lambda operation: None))
    try:
        runner.run()
    except _NotOursError:
        runner.clean_up()
    except BaseException as error:
        # Other exceptions end the process, as Ctrl-C does.
        runner.stop(type(error).__name__ if isinstance(error, Exception) else "")
        raise
    return rows.first()


@sync_only
def run_waiting(*, seconds: float | None = None, using: str | None = None) -> list[Operation]:
    """Carry out all operations that wait or were stopped, oldest first; return what was run.

    One that raises an error is logged, and returned as stopped. Files of old exports are deleted.
    """
    alias, ends = bridge.database(using), None if seconds is None else time.monotonic() + seconds
    delete_expired_exports(using=alias)
    ran = []
    waiting = Operation.objects.using(alias).filter(free(timezone.now())).order_by("pk")
    for operation in list(waiting):
        left = None if ends is None else ends - time.monotonic()
        if left is not None and left <= 0:
            break
        try:
            result = run(operation.pk, seconds=left, using=alias)
        except Exception as error:  # one operation's error must not stop the others
            logger.exception("Operation %s stopped", operation.pk)
            result = _read_stopped(operation, error)
        ran += [] if result is None else [result]
    return ran


def _read_stopped(operation: Operation, error: Exception) -> Operation:
    """Read an operation again that raised an error; without a connection, return what is known."""
    with suppress(Exception):
        operation.refresh_from_db()
    if not operation.is_over:
        # The error may have prevented that its row says so.
        operation.status, operation.problem = _Status.STOPPED, type(error).__name__
    return operation


@dataclass
class _Runner:
    using: str
    token: UUID
    operation: Operation
    ends: float | None
    progress: Callable[[Operation], None]

    def run(self) -> None:
        starter, operation = _Starter(self.operation), self.operation
        with audit.acting(starter, via=_VIA, reason=operation.reason, target=operation.pk):
            while True:
                if self.ends is not None and time.monotonic() >= self.ends:
                    self._update(status=_Status.WAITING, runner=None)
                    return
                # The user's rights are read anew for each batch.
                sessions = sessions_of(self.operation)
                if sessions is None:
                    self._update(status=_Status.STOPPED, runner=None, problem="access")
                    return
                if self.operation.matched is None:
                    self._count(sessions)
                keys = self._next_keys(sessions)
                if not keys:
                    self._finish()
                    return
                try:
                    for group, is_large in work.split(self.operation, keys):
                        self._carry_out(SessionBatch(self.operation, sessions, group, is_large))
                        self.progress(self.operation)
                except AccessLostError:
                    # The next round finds that the user has no access, and stops.
                    continue

    def stop(self, problem: str) -> None:
        """Let another process continue; without a connection the lease expires."""
        try:
            self._update(status=_Status.STOPPED, runner=None, problem=problem[:64])
        except Exception:  # the operation's own error is raised, not this one
            logger.warning("Operation %s was left running", self.operation.pk, exc_info=True)

    def clean_up(self) -> None:
        """Delete the files that were written after the operation was cancelled."""
        if self._rows().filter(status=_Status.CANCELLED).exists():
            delete_export(self.operation)

    # --- batches -----------------------------------------------------------------------------

    def _next_keys(self, sessions: QuerySet[Session]) -> list[UUID]:
        if self.operation.cursor is not None:
            sessions = sessions.filter(pk__gt=self.operation.cursor)
        size = _BATCHES.get(Operation.Kind(self.operation.kind), _BATCH)
        return list(sessions.values_list("pk", flat=True)[:size])

    def _carry_out(self, batch: SessionBatch) -> None:
        """Do a batch; if it fails, do its sessions one by one."""
        try:
            self._attempt(batch)
        except (_NotOursError, AccessLostError, OperationalError, InterfaceError):
            raise
        except Exception as error:  # of any session, storage or signal: the report names it
            if len(batch.keys) == 1:
                self._leave_out(batch.keys[0], error)
                return
            for key in batch.keys:
                ((keys, is_large),) = work.split(self.operation, [key])
                self._carry_out(SessionBatch(self.operation, batch.sessions, keys, is_large))

    def _attempt(self, batch: SessionBatch) -> None:
        kind, last = self.operation.kind, batch.keys[-1]
        if kind == Operation.Kind.REDACT:
            work.redact_one(batch, self._advance)
        elif kind == Operation.Kind.EXPORT:
            self._export(batch)
        else:
            service = work.delete if kind == Operation.Kind.DELETE else work.set_hold
            self._in_transaction(lambda: self._advance(last, service(batch)))
        self.operation.refresh_from_db(using=self.using)

    def _export(self, batch: SessionBatch) -> None:
        for is_last in (False, False, True):
            exported = work.export(batch, self._beat)

            def store(exported: BatchOutcome = exported) -> None:
                work.record_export(batch, exported)
                self._advance(batch.keys[-1], exported)

            try:
                self._in_transaction(store, batch.keys[-1])
                return
            except SessionConflictError:
                # If another process continues the operation, later parts are of that one.
                self._update(heartbeat_at=timezone.now())
                # The files may have what was erased meanwhile.
                delete_uncounted_parts(self.operation)
                if is_last:
                    raise

    def _leave_out(self, key: UUID, error: Exception) -> None:
        outcome = work.left_out(key, error)
        outcome.files = self.operation.files
        self._in_transaction(lambda: self._advance(key, outcome))
        self.operation.refresh_from_db(using=self.using)

    def _in_transaction(self, function: Callable[[], None], last: UUID | None = None) -> None:
        """Run a function, once also if an answer is lost: ``last`` is where it moves the cursor."""

        def attempt(unsure: bool) -> None:
            if unsure and last is not None and self._ours().filter(cursor=last).exists():
                return
            with tracked_atomic(self.using):
                function()

        write(self.using, attempt, what="an operation on sessions")

    # --- the operation's row -----------------------------------------------------------------

    def _rows(self) -> Any:
        return Operation.objects.using(self.using).filter(pk=self.operation.pk)

    def _ours(self) -> Any:
        return self._rows().filter(status=_Status.RUNNING, runner=self.token)

    def _update(self, **columns: Any) -> None:
        if not self._ours().update(**columns):
            raise _NotOursError

    def _advance(self, last: UUID, outcome: BatchOutcome) -> None:
        """Move the cursor and count, in the transaction of the work; the row is the fence."""
        columns: dict[str, Any] = {
            "cursor": last,
            "heartbeat_at": timezone.now(),
            "done": F("done") + outcome.done,
            "unchanged": F("unchanged") + outcome.unchanged,
            "skipped": F("skipped") + len(outcome.skipped),
            "failed": F("failed") + len(outcome.failed),
            "files": max(outcome.files, self.operation.files),
        }
        report = self.operation.report
        if entries := work.entries(outcome)[: MAX_REPORT - len(report)]:
            columns["report"] = [*report, *entries]
        at = self.operation.cursor
        before = self._ours().filter(**({"cursor__isnull": True} if at is None else {"cursor": at}))
        # A transaction that is tried again may have been committed.
        if not before.update(**columns) and not self._ours().filter(cursor=last).exists():
            raise _NotOursError

    def _beat(self) -> None:
        """Renew the lease while a batch takes long."""
        now = timezone.now()
        if self.operation.heartbeat_at is None or now - self.operation.heartbeat_at > _BEAT:
            self._update(heartbeat_at=now)
            self.operation.heartbeat_at = now

    def _count(self, sessions: QuerySet[Session]) -> None:
        matched = sessions.order_by()[:MAX_COUNTED].count()
        self._update(matched=matched, heartbeat_at=timezone.now())
        self.operation.matched = matched

    def _finish(self) -> None:
        def finish() -> None:
            self._update(
                status=_Status.DONE,
                finished_at=timezone.now(),
                runner=None,
                scope="",
                matched=self.operation.handled,
            )
            mask_ended_filters([self.operation.pk], using=self.using)
            record_end(self.operation, "done", None, self.using)

        self._in_transaction(finish)
        # Those of a process that was killed before its last batch counted.
        delete_uncounted_parts(self.operation)


@dataclass(frozen=True)
class _Starter:
    """Who started an operation, as audit events name the actor."""

    operation: Operation

    @property
    def pk(self) -> str:
        return self.operation.started_by

    def get_username(self) -> str:
        return self.operation.started_by_name
