"""Delete what is older than ``AGENT_SESSIONS["RETENTION"]`` allows, and say when a session will be.

Sessions are found by ranges of indexes, a page at a time, and deleted in transactions of limited
size. Each transaction locks its sessions and reads the rule again, so that a session that became
active, or was put under legal hold, stays. It also writes the audit event with the ids of the
deleted sessions, so that the trail is complete after a kill, and another run continues.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connections
from django.db.models import Count, Exists, OuterRef, Q, Sum
from django.utils import timezone

from django_agent_sessions import audit
from django_agent_sessions.blobs import files_to_delete
from django_agent_sessions.blobs.export_files import delete_exports
from django_agent_sessions.db import bridge
from django_agent_sessions.db.loop_guard import sync_only
from django_agent_sessions.db.retries import tracked_atomic, write
from django_agent_sessions.models import (
    AuditEvent,
    Operation,
    RunLease,
    Session,
    UsageCursor,
    UsageRollup,
    deletion,
    lifetimes,
    removal,
)
from django_agent_sessions.models.lifetimes import (
    OTHER_NAMESPACES,
    DeletionDate,
    Lifetimes,
    Rule,
)
from django_agent_sessions.models.querysets import SessionQuerySet
from django_agent_sessions.models.session_names import SessionName, read_named
from django_agent_sessions.values.ids import new_id
from django_agent_sessions.values.owners import EVERYBODY, Reach

from .session_deletion import delete_group

__all__ = ["DeletionDate", "Doomed", "PruneReport", "Rule", "deletion_date", "prune"]


@sync_only
def deletion_date(session: SessionName) -> DeletionDate | None:
    """Return when ``prune`` may delete a session, and by which rule.

    Returns None if it is under legal hold, or if neither ``expires_at`` nor
    ``AGENT_SESSIONS["RETENTION"]`` limits its life.
    """
    return lifetimes.deletion_date(read_named(session))


_VIA = "prune"
_PAGE = 500
_ROWS = 5_000


class Doomed(NamedTuple):
    """Sessions of a namespace that were deleted by a rule, or would be."""

    namespace: str
    rule: Rule


@dataclass
class PruneReport:
    """What one run of :func:`prune` deleted, or would delete.

    Attributes:
        run: The id of the run: the ``target`` of its audit events.
        sessions: The number of sessions, by namespace and rule.
        held: The number of sessions that are due but under legal hold; counted by a dry run only.
        messages: The number of messages of these sessions.
        skipped: The number of sessions that were due, and were used or changed before they were
            deleted.
        audit_events: The number of audit events.
        usage_rows: The number of rows of usage.
        files_left: The number of files of deleted sessions that a storage did not delete, also
            after earlier runs; the next run tries again.
        finished: Whether nothing is left that was due; False if the time was over.
    """

    run: UUID = field(default_factory=new_id)
    sessions: Counter[Doomed] = field(default_factory=Counter)
    held: Counter[Doomed] = field(default_factory=Counter)
    messages: int = 0
    skipped: int = 0
    audit_events: int = 0
    usage_rows: int = 0
    files_left: int = 0
    finished: bool = False

    def details(self) -> dict[str, Any]:
        """Return the figures of the audit event."""
        by_namespace: dict[str, dict[str, int]] = {}
        for (namespace, rule), count in sorted(self.sessions.items()):
            by_namespace.setdefault(namespace, {})[rule.value] = count
        figures = {"sessions": self.sessions.total(), "messages": self.messages}
        others = {"audit_events": self.audit_events, "usage_rows": self.usage_rows}
        figures |= {name: count for name, count in others.items() if count}
        return {**figures, "by_namespace": by_namespace, "finished": self.finished}


@sync_only
def prune(
    *,
    namespace: str | None = None,
    owner: Any = EVERYBODY,
    older_than: timedelta | None = None,
    seconds: float | None = None,
    dry_run: bool = False,
    actor: Any = None,
    reason: str | None = None,
    progress: Callable[[PruneReport], None] | None = None,
    now: datetime | None = None,
    using: str | None = None,
) -> PruneReport:
    """Delete the sessions, audit events and usage that are due.

    A run that was killed is continued by the next one. Call it outside a transaction: inside,
    everything belongs to that transaction. Without ``namespace``, ``owner`` and ``older_than``,
    audit events and usage are deleted too.

    Args:
        namespace: Only sessions of this namespace.
        owner: Only sessions of this user, or of ``NOBODY``.
        older_than: The time since the last activity, in place of the lifetimes in the settings.
            Namespaces with lifetimes of their own keep those, unless ``namespace`` names one.
        seconds: Begin no transaction after this time.
        dry_run: Count what would be deleted.
        actor: The user, or a text that names a program, for the audit trail.
        reason: The reason, for the audit trail.
        progress: Called after each transaction.
        now: The time of the decision; by default the current one.
        using: The database alias.

    Raises:
        ConfigurationError: ``AGENT_SESSIONS["RETENTION"]`` is invalid; nothing was deleted.
    """
    audit.refuse_username(actor, using=bridge.database(using))
    lifetimes = Lifetimes.from_settings()
    selected = older_than is not None or namespace is not None or owner is not EVERYBODY
    if older_than is not None:
        lifetimes = lifetimes.with_idle(older_than, namespace)
    run = _Run(
        using=bridge.database(using),
        now=now or timezone.now(),
        lifetimes=lifetimes,
        namespace=namespace,
        owner=Reach(owner),
        ends=None if seconds is None else time.monotonic() + seconds,
        progress=progress or (lambda report: None),
    )
    if dry_run:
        return run.count(everything=not selected)
    with audit.acting(actor, via=_VIA, reason=reason or "", target=run.report.run):
        try:
            run.delete(everything=not selected)
        finally:
            run.record()
    return run.report


class _TimeOverError(Exception):
    """The time of the run is over."""


@dataclass
class _Run:
    using: str
    now: datetime
    lifetimes: Lifetimes
    namespace: str | None
    owner: Reach
    ends: float | None
    progress: Callable[[PruneReport], None]
    report: PruneReport = field(default_factory=PruneReport)

    def count(self, *, everything: bool) -> PruneReport:
        report = self.report
        for rule, condition in self._ranges():
            rows = self._sessions().filter(condition).order_by().values("namespace")
            free = removal.REMOVABLE
            for name, count, held, messages in rows.annotate(
                free=Count("pk", filter=free),
                kept=Count("pk", filter=~free),
                said=Sum("message_count", filter=free),
            ).values_list("namespace", "free", "kept", "said"):
                report.sessions[Doomed(name, rule)] += count
                report.held[Doomed(name, rule)] += held
                report.messages += messages or 0
        if everything:
            if before := self._before(self.lifetimes.audit_events):
                events = AuditEvent.objects.using(self.using).filter(created_at__lt=before)
                report.audit_events = events.count()
            report.usage_rows = sum(rows.count() for rows in self._usage())
        report.finished = True
        return report

    def delete(self, *, everything: bool) -> None:
        try:
            # Those that an earlier run began to delete.
            deletion.delete_tombstones(Session.objects.using(self.using))
            files_to_delete.delete_remaining(self.using)
            for rule, condition in self._ranges():
                self._delete_sessions(rule, condition)
            if everything:
                self._delete_events()
                self._delete_usage()
            self.report.finished = True
        except _TimeOverError:
            pass
        self.report.files_left = files_to_delete.remaining_files(self.using).count()

    def record(self) -> None:
        """Write the event of the whole run, unless it deleted nothing."""
        report = self.report
        if report.sessions or report.audit_events or report.usage_rows:
            audit.record_checked(
                AuditEvent.Action.PRUNED, details=report.details(), using=self.using
            )

    def _sessions(self) -> SessionQuerySet:
        rows = Session.objects.using(self.using).filter(self.owner.condition())
        rows = rows.exclude(namespace=deletion.TOMBSTONE_NAMESPACE)
        return rows if self.namespace is None else rows.filter(namespace=self.namespace)

    def _ranges(self) -> Iterator[tuple[Rule, Q]]:
        """Yield the rules with the condition for their sessions, each a range of an index."""
        yield Rule.EXPIRES, Q(expires_at__lte=self.now)
        for namespace in self._namespaces():
            for rule in self.lifetimes.of(namespace):
                yield rule, self.lifetimes.due_by(rule, namespace, self.now)

    def _namespaces(self) -> Iterator[str]:
        if self.namespace is not None:
            yield self.namespace
        elif self.lifetimes.of(OTHER_NAMESPACES):
            yield from self._sessions().namespaces()
        else:
            yield from self.lifetimes.named

    def _delete_sessions(self, rule: Rule, condition: Q) -> None:
        rows = self._sessions().filter(condition).not_held()
        ordered = rows.order_by(rule.column, "pk")
        columns = ("pk", rule.column)
        page = list(ordered.values_list(*columns)[:_PAGE])
        while page:
            keys = [key for key, _ in page]
            for start in range(0, len(keys), deletion.MAX_SESSIONS):
                batch = keys[start : start + deletion.MAX_SESSIONS]
                for group, is_large in deletion.groups(rows, batch):
                    self._check_time()
                    self._delete_group(rows, rule, group, is_large)
                    self.progress(self.report)
            key, moment = page[-1]
            # What stayed is behind; the next run finds it again, if it is still due.
            later = ordered.after(rule.column, moment, key)
            page = list(later.values_list(*columns)[:_PAGE])

    def _delete_group(
        self, rows: SessionQuerySet, rule: Rule, keys: Collection[UUID], is_large: bool
    ) -> None:
        event: AuditEvent | None = None
        deleted: list[Session] = []

        def attempt(unsure: bool) -> list[Session]:
            nonlocal event, deleted
            with tracked_atomic(self.using):
                if unsure and event is not None and self._is_recorded(event):
                    return deleted
                deleted = self._lock(rows.filter(pk__in=keys))
                if not deleted:
                    return []
                if is_large:
                    # Its first batch, with the event; the others follow the commit.
                    deletion.delete_after_commit(deleted[0], self.using)
                else:
                    event = self._delete_and_record(deleted)
            return deleted

        result = write(self.using, attempt, what="pruning sessions")
        for session in result:
            self.report.sessions[Doomed(session.namespace, rule)] += 1
            self.report.messages += session.message_count
        self.report.skipped += len(keys) - len(result)

    def _lock(self, rows: SessionQuerySet) -> list[Session]:
        """Lock those of the sessions that are still due and not in use."""
        running = RunLease.objects.filter(session=OuterRef("pk"), expires_at__gt=timezone.now())
        # A session that another transaction has locked is in use: it is left to the next run.
        can_skip = connections[self.using].features.has_select_for_update_skip_locked
        locked = rows.filter(~Exists(running)).select_for_update(skip_locked=can_skip)
        return list(locked.order_by("pk").defer(*deletion.ENCRYPTED))

    def _delete_and_record(self, sessions: list[Session]) -> AuditEvent:
        keys = [session.pk for session in sessions]
        delete_group(sessions, self.using)
        return audit.record_checked(
            AuditEvent.Action.DELETED,
            session=keys[0] if len(keys) == 1 else None,
            details={
                "messages": sum(session.message_count for session in sessions),
                "sessions": [str(key) for key in keys],
            },
            using=self.using,
        )

    def _is_recorded(self, event: AuditEvent) -> bool:
        return AuditEvent.objects.using(self.using).filter(pk=event.pk).exists()

    def _delete_events(self) -> None:
        if before := self._before(self.lifetimes.audit_events):
            self._check_time()
            operations = Operation.objects.using(self.using).filter(finished_at__lt=before)
            delete_exports(operations.filter(files__gt=0))
            operations.filter(files=0).delete()
            while count := audit.purge_batch(before, using=self.using):
                self.report.audit_events += count
                self.progress(self.report)
                self._check_time()

    def _delete_usage(self) -> None:
        if before := self._before(self.lifetimes.usage):
            # First, so that a check does not miss what is about to be deleted.
            first = before.date()
            earlier = Q(first_kept=None) | Q(first_kept__lt=first)
            UsageCursor.objects.using(self.using).filter(earlier).update(first_kept=first)
        for rows in self._usage():
            while keys := list(rows.values_list("pk", flat=True)[:_ROWS]):
                self._check_time()
                old = UsageRollup.objects.using(self.using).filter(pk__in=keys)
                self.report.usage_rows += old.delete()[0]
                self.progress(self.report)

    def _usage(self) -> Iterator[Any]:
        """Yield the old rows of each dimension, which is how their index begins."""
        if before := self._before(self.lifetimes.usage):
            for dimension in UsageRollup.Dimension:
                first = _first_kept(dimension, before.date())
                rows = UsageRollup.objects.using(self.using).order_by("period")
                yield rows.filter(dimension=dimension, period__lt=first)

    def _before(self, lifetime: timedelta | None) -> datetime | None:
        return None if lifetime is None else self.now - lifetime

    def _check_time(self) -> None:
        if self.ends is not None and time.monotonic() >= self.ends:
            raise _TimeOverError


def _first_kept(dimension: UsageRollup.Dimension, day: date) -> date:
    """Return the first day that is kept; the figures of an owner are of a whole month."""
    return day.replace(day=1) if dimension == UsageRollup.Dimension.OWNER else day
