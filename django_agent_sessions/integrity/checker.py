"""The check itself: batch by batch, with a second check of suspicious sessions, and repairs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from uuid import UUID

from django.db.models import QuerySet

from django_agent_sessions.blobs import files_to_delete
from django_agent_sessions.content import codec
from django_agent_sessions.db import bridge
from django_agent_sessions.db.loop_guard import sync_only
from django_agent_sessions.db.retries import tracked_atomic, write
from django_agent_sessions.models import Session, StoredObject
from django_agent_sessions.sql.triggers import TRIGGERS, trigger_problem

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
"""The most messages of the sessions that are locked together for the second check."""

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
class _Suspects:
    """The findings of a first check, and when it ended."""

    findings: list[Finding] = field(default_factory=list)
    messages: Counter[UUID] = field(default_factory=Counter)
    checked_at: float = 0.0


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
    _plain: int = 0

    @sync_only
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
        suspects = _Suspects()
        for part in key_batches(rows):
            keys = [key for (key,) in part]
            for start in range(0, len(keys), _BATCH_SIZE):
                found = self._check_sessions(alias, keys[start : start + _BATCH_SIZE])
                # After the next batch, so that there is rarely anything left to wait for.
                yield from self._recheck_suspects(alias, suspects)
                suspects = found
        yield from self._recheck_suspects(alias, suspects)
        if self._plain and codec.hides_text():
            yield Result(Finding(Kind.NOT_ENCRYPTED, detail=f"{self._plain} messages"))
        if self.sessions is None:
            yield from self._check_rows_without_session(alias)

    def _check_sessions(self, alias: str, keys: list[UUID]) -> _Suspects:
        batch = self._check_batch(alias, keys, count=True)
        self.sessions_checked += len(keys)
        for day, tally in batch.days.items():
            self._days[day] = self._days.get(day, UsageSum()).plus(*tally)
        return _Suspects(list(batch.findings()), batch.counts, time.monotonic())

    def _recheck_suspects(self, alias: str, suspects: _Suspects) -> Iterator[Result]:
        findings = suspects.findings
        if any(finding.kind.severity is not Severity.NOTE for finding in findings):
            time.sleep(max(0.0, suspects.checked_at + _RECHECK_DELAY - time.monotonic()))
        sessions = dict.fromkeys(finding.session for finding in findings if finding.session)
        for group in _groups(sessions, suspects.messages):
            again = self._recheck(alias, group, findings, suspects.messages)
            for session in group:
                if self.mend:
                    yield from self._repair(alias, session, again[session])
                else:
                    yield from map(Result, again[session])

    def _recheck(
        self, alias: str, group: list[UUID], first: Sequence[Finding], messages: Counter[UUID]
    ) -> dict[UUID, list[Finding]]:
        """Check sessions a second time, while they are locked; return their findings."""

        def check_locked(unsure: bool) -> Batch:
            with tracked_atomic(alias):
                _lock_sessions(alias, group)
                return self._check_batch(alias, group)

        if sum(messages[session] for session in group) <= _MAX_LOCKED_MESSAGES:
            batch = write(alias, check_locked, what="checking sessions", savepoint=False)
            findings = list(batch.findings())
        else:
            batch = self._check_batch(alias, group)
            known = set(first)
            findings = [finding for finding in batch.findings() if finding in known]
        self.unlisted += batch.unlisted()
        by_session: dict[UUID, list[Finding]] = {session: [] for session in group}
        for finding in findings:
            if finding.session is not None:
                by_session[finding.session].append(finding)
        return by_session

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
        with codec.reading_damaged():
            self._check_contents(alias, batch, count)
        return batch

    def _check_contents(self, alias: str, batch: Batch, count: bool) -> None:
        binaries = BinaryCheck(batch)
        for part in ConversationCheck(batch).look():
            binaries.check_messages(part)
            if count:
                self.messages += len(part)
                self.progress(self.sessions_checked, self.messages)
        self._plain += batch.plain if count else 0
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

    def _check_rows_without_session(self, alias: str) -> Iterator[Result]:
        without_session = StoredObject.objects.using(alias).filter(session=None)
        yield from map(Result, check_stored_objects(without_session))
        yield from map(Result, check_usage(alias, self._days, self._counted))
        for trigger in TRIGGERS:
            if problem := trigger_problem(alias, trigger):
                reason = repair.recreate_trigger(alias, trigger, problem) if self.mend else ""
                found = Finding(Kind.TRIGGER, detail=f"{trigger.name}: {problem}")
                yield Result(found, self.mend and not reason, reason)
        yield from self._check_files_to_delete(alias)
        if self.files:
            findings, deleted = check_storage_files(alias, mend=self.mend)
            for finding in findings:
                yield Result(finding, finding.kind is Kind.BLOB_FILES and deleted > 0)

    def _check_files_to_delete(self, alias: str) -> Iterator[Result]:
        keys = files_to_delete.remaining_files(alias).values_list("pk", flat=True)
        if not (first := set(keys)):
            return
        if self.mend:
            files_to_delete.delete_remaining(alias)
        else:
            # A deletion in another process may be about to delete them.
            time.sleep(_RECHECK_DELAY)
        left = len(first & set(keys.all()))
        if self.mend and left < len(first):
            finding = Finding(Kind.FILE_TO_DELETE, detail=f"{len(first) - left} files")
            yield Result(finding, mended=True)
        if left:
            yield Result(Finding(Kind.FILE_TO_DELETE, detail=f"{left} files"))


def _groups(sessions: Iterable[UUID], messages: Counter[UUID]) -> Iterator[list[UUID]]:
    """Group sessions that are locked together; one with too many messages is a group of its own."""
    group: list[UUID] = []
    room = _MAX_LOCKED_MESSAGES
    for session in sessions:
        if group and messages[session] > room:
            yield group
            group, room = [], _MAX_LOCKED_MESSAGES
        group.append(session)
        room -= messages[session]
    if group:
        yield group


def _lock_sessions(using: str, sessions: Sequence[UUID]) -> None:
    rows = Session.objects.using(using).select_for_update().filter(pk__in=sessions)
    # In the order of their keys, as others lock several.
    list(rows.order_by("pk").values_list("pk"))


def _subject(finding: Finding) -> Finding:
    """Return the finding without its position, which a repair of gaps changes."""
    return finding if finding.row is None else replace(finding, position=None)


def _by_subject(findings: Sequence[Finding]) -> dict[Finding, Finding]:
    return {_subject(finding): finding for finding in findings}
