"""The check itself: batch by batch, with a second check of suspicious sessions, and repairs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from django_agent_sessions.db import bridge
from django_agent_sessions.models import Session, StoredObject
from django_agent_sessions.sql.audit_trigger import trigger_problem
from django_agent_sessions.store.locking import lock_session

from . import repair
from .batch import Batch, UsageSum, read_batch
from .binaries import BinaryCheck, check_storage_files
from .conversations import ConversationCheck
from .counters import (
    check_counters,
    check_leases,
    check_stored_objects,
    check_usage,
    last_counted_message,
)
from .findings import Finding, Kind, Severity
from .row_batches import key_batches
from .timeline import check_timeline

GRACE = timedelta(minutes=10)
"""In a session with writes more recent than this, a turn may be in progress."""

_BATCH_SIZE = 100
_MAX_LOCKED_MESSAGES = 5000
"""The most messages of a session that is locked for the second check."""

_RECHECK_DELAY = 0.3
"""Seconds before the second check, in which other processes can complete their writes."""

_MAX_REPAIR_ROUNDS = 100


@dataclass(frozen=True, slots=True)
class Result:
    """A finding, and whether it was repaired.

    Attributes:
        finding: The finding.
        mended: Whether it was repaired.
        left: Why a requested repair was not made; empty otherwise.
    """

    finding: Finding
    mended: bool = False
    left: str = ""


@dataclass(slots=True)
class Check:
    """An integrity check.

    Attributes:
        using: The alias of the database.
        sessions: The sessions to check; None for all sessions and for rows without a session.
        mend: Whether to repair what can be repaired without loss.
        files: Whether to read the files of large binaries and to list their storages.
        grace: In a session with writes more recent than this, a turn may be in progress.
        progress: Called with the number of checked sessions and messages.
        looked_at: Number of checked sessions.
        messages: Number of checked messages.
        unlisted: Number of findings that were too many of a kind in a session to be listed.
        found: Number of findings of each kind.
        left: Number of remaining errors and warnings.
    """

    using: str | None = None
    sessions: QuerySet[Session] | None = None
    mend: bool = False
    files: bool = False
    grace: timedelta = GRACE
    progress: Callable[[int, int], None] = lambda sessions, messages: None
    sessions_checked: int = 0
    messages: int = 0
    unlisted: int = 0
    found: Counter[Kind] = field(default_factory=Counter)
    left: int = 0
    _days: dict[date, UsageSum] = field(default_factory=dict)
    _counted: UUID | None = None

    def run(self) -> Iterator[Result]:
        """Run the check.

        Yields:
            The findings, session by session, then those without a session.
        """
        for result in self._run():
            self.found[result.finding.kind] += 1
            self.left += not result.mended and result.finding.kind.severity is not Severity.NOTE
            yield result

    def _run(self) -> Iterator[Result]:
        alias = self.using = bridge.database(self.using)
        self._counted = last_counted_message(alias)
        rows = Session.objects.using(alias) if self.sessions is None else self.sessions
        for part in key_batches(rows):
            keys = [key for (key,) in part]
            for start in range(0, len(keys), _BATCH_SIZE):
                yield from self._check_sessions(alias, keys[start : start + _BATCH_SIZE])
        if self.sessions is None:
            yield from self._check_rows_without_session(alias)

    def _check_sessions(self, alias: str, keys: list[UUID]) -> Iterator[Result]:
        batch = self._check_batch(alias, keys, count=True)
        self.sessions_checked += len(keys)
        for day, tally in batch.days.items():
            self._days[day] = self._days.get(day, UsageSum()).plus(*tally)
        findings = list(batch.findings())
        if any(finding.kind.severity is not Severity.NOTE for finding in findings):
            time.sleep(_RECHECK_DELAY)
        suspects = dict.fromkeys(finding.session for finding in findings if finding.session)
        for session in suspects:
            first = [finding for finding in findings if finding.session == session]
            yield from self._recheck_session(alias, session, first, batch.counts[session])

    def _recheck_session(
        self, alias: str, session: UUID, first: Sequence[Finding], messages: int
    ) -> Iterator[Result]:
        """Check a session a second time while it is locked, and repair it if requested."""
        if messages <= _MAX_LOCKED_MESSAGES:
            with transaction.atomic(alias):
                lock_session(alias, session)
                batch = self._check_batch(alias, [session])
            findings = list(batch.findings())
        else:
            batch = self._check_batch(alias, [session])
            findings = [finding for finding in batch.findings() if finding in set(first)]
        self.unlisted += batch.unlisted()
        if not self.mend:
            yield from map(Result, findings)
            return
        yield from self._repair(alias, session, findings)

    def _repair(self, alias: str, session: UUID, findings: Sequence[Finding]) -> Iterator[Result]:
        reasons: dict[Finding, str] = {}
        remaining = list(findings)
        remaining_by_subject = by_subject = _by_subject(remaining)
        for _ in range(_MAX_REPAIR_ROUNDS):
            mendable = [finding for finding in remaining if finding.kind.mendable]
            refused = repair.repair_findings(alias, session, mendable)
            reasons |= {_subject(finding): reason for finding, reason in refused.items()}
            if len(refused) == len(mendable):
                break
            remaining = list(self._check_batch(alias, [session]).findings())
            remaining_by_subject = _by_subject(remaining)
            by_subject = by_subject | remaining_by_subject
        for subject, finding in by_subject.items():
            if subject in remaining_by_subject:
                yield Result(finding, left=reasons.get(subject, ""))
            elif finding.kind.mendable:
                yield Result(finding, mended=True)
            # Otherwise it was a consequence of a finding that was repaired.

    def _check_batch(self, alias: str, keys: list[UUID], *, count: bool = False) -> Batch:
        batch = read_batch(alias, keys, self._counted if count else None)
        binaries = BinaryCheck(batch)
        for part in ConversationCheck(batch).look():
            binaries.check_messages(part)
            if count:
                self.messages += len(part)
                self.progress(self.sessions_checked, self.messages)
        binaries.look_at_rows()
        if self.files:
            binaries.look_at_files()
        check_timeline(batch)
        check_counters(batch, self.grace)
        check_leases(batch)
        for finding in check_stored_objects(
            StoredObject.objects.using(alias).filter(session__in=batch.sessions)
        ):
            batch.add(finding.kind, session=finding.session, row=finding.row)
        return batch

    def _check_rows_without_session(self, alias: str) -> Iterator[Result]:
        without_session = StoredObject.objects.using(alias).filter(session=None)
        yield from map(Result, check_stored_objects(without_session))
        yield from map(Result, check_usage(alias, self._days, self._counted))
        if problem := trigger_problem(alias):
            reason = repair.create_audit_trigger(alias, problem) if self.mend else ""
            mended = self.mend and not reason
            yield Result(Finding(Kind.AUDIT_TRIGGER, detail=problem), mended, reason)
        if self.files:
            findings, deleted = check_storage_files(alias, mend=self.mend)
            for finding in findings:
                yield Result(finding, finding.kind is Kind.BLOB_FILES and deleted > 0)


def _subject(finding: Finding) -> Finding:
    """Return the finding without its position, which a repair of gaps changes."""
    return finding if finding.row is None else replace(finding, position=None)


def _by_subject(findings: Sequence[Finding]) -> dict[Finding, Finding]:
    return {_subject(finding): finding for finding in findings}
