"""The check as a whole: batch by batch, each suspicion twice, and what is mended in between."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from django_agent_sessions import bridge
from django_agent_sessions.models import Session, StoredObject
from django_agent_sessions.store.alone import lock_session

from . import mending
from .batch import Batch, Tally, read_batch
from .binaries import Binaries, look_at_storage
from .conversations import Conversations
from .figures import (
    counted_message,
    damaged_objects,
    look_at_counters,
    look_at_leases,
    look_at_usage,
)
from .findings import Finding, Kind, Severity
from .pieces import parts
from .timeline import look_at_timeline

GRACE = timedelta(minutes=10)
"""In a session in which something was written that lately, a turn may be under way."""

_SESSIONS = 100
_LOCKED = 5000
"""A session of more messages is not locked while it is looked at again."""

_PATIENCE = 0.3
"""Seconds that a process which is between two statements is given to go on."""

_ROUNDS = 100


@dataclass(frozen=True, slots=True)
class Result:
    """A finding, and what became of it.

    Attributes:
        finding: The finding.
        mended: Whether it was mended.
        left: Why it was not, if somebody wanted it to be.
    """

    finding: Finding
    mended: bool = False
    left: str = ""


@dataclass(slots=True)
class Check:
    """One check.

    Attributes:
        using: The alias of the database.
        sessions: The sessions to look at; None for all that there are, and what is of none.
        mend: Whether to mend what can be.
        files: Whether to read the files of large binaries, and to list their storages.
        grace: In a session in which something was written that lately, a turn may be under way.
        progress: Called with how many sessions and messages were looked at.
        looked_at: How many sessions were looked at.
        messages: How many messages.
        unlisted: How many findings were too many of one kind in one session to be listed.
        found: How many findings of each kind there were.
        left: How many errors and warnings there are still.
    """

    using: str | None = None
    sessions: QuerySet[Session] | None = None
    mend: bool = False
    files: bool = False
    grace: timedelta = GRACE
    progress: Callable[[int, int], None] = lambda sessions, messages: None
    looked_at: int = 0
    messages: int = 0
    unlisted: int = 0
    found: Counter[Kind] = field(default_factory=Counter)
    left: int = 0
    _days: dict[date, Tally] = field(default_factory=dict)
    _counted: UUID | None = None

    def run(self) -> Iterator[Result]:
        """Looks at everything.

        Yields:
            What was found, session by session, and at the end what belongs to none.
        """
        for result in self._run():
            self.found[result.finding.kind] += 1
            self.left += not result.mended and result.finding.kind.severity is not Severity.NOTE
            yield result

    def _run(self) -> Iterator[Result]:
        alias = self.using = bridge.database(self.using)
        self._counted = counted_message(alias)
        rows = Session.objects.using(alias) if self.sessions is None else self.sessions
        for part in parts(rows):
            keys = [key for (key,) in part]
            for start in range(0, len(keys), _SESSIONS):
                yield from self._look_at(alias, keys[start : start + _SESSIONS])
        if self.sessions is None:
            yield from self._look_at_the_rest(alias)

    def _look_at(self, alias: str, keys: list[UUID]) -> Iterator[Result]:
        batch = self._batch(alias, keys, count=True)
        self.looked_at += len(keys)
        for day, said in batch.days.items():
            self._days[day] = self._days.get(day, Tally()).plus(*said)
        found = list(batch.findings())
        if any(finding.kind.severity is not Severity.NOTE for finding in found):
            time.sleep(_PATIENCE)
        suspects = dict.fromkeys(finding.session for finding in found if finding.session)
        for session in suspects:
            first = [finding for finding in found if finding.session == session]
            yield from self._look_again(alias, session, first, batch.counts[session])

    def _look_again(
        self, alias: str, session: UUID, first: Sequence[Finding], messages: int
    ) -> Iterator[Result]:
        """Tells what is found a second time, while nobody writes; and mends it."""
        if messages <= _LOCKED:
            with transaction.atomic(alias):
                lock_session(alias, session)
                batch = self._batch(alias, [session])
            found = list(batch.findings())
        else:
            batch = self._batch(alias, [session])
            found = [finding for finding in batch.findings() if finding in set(first)]
        self.unlisted += batch.unlisted()
        if not self.mend:
            yield from map(Result, found)
            return
        yield from self._mended(alias, session, found)

    def _mended(self, alias: str, session: UUID, found: Sequence[Finding]) -> Iterator[Result]:
        why: dict[Finding, str] = {}
        wanted = list(found)
        there = seen = _by_subject(wanted)
        for _ in range(_ROUNDS):
            mendable = [finding for finding in wanted if finding.kind.mendable]
            refused = mending.mend(alias, session, mendable)
            why |= {_subject(finding): reason for finding, reason in refused.items()}
            if len(refused) == len(mendable):
                break
            wanted = list(self._batch(alias, [session]).findings())
            there = _by_subject(wanted)
            seen = seen | there
        for subject, finding in seen.items():
            if subject in there:
                yield Result(finding, left=why.get(subject, ""))
            elif finding.kind.mendable:
                yield Result(finding, mended=True)
            # Else it hung on something that was mended: there is nothing left to tell.

    def _batch(self, alias: str, keys: list[UUID], *, count: bool = False) -> Batch:
        batch = read_batch(alias, keys, self._counted if count else None)
        binaries = Binaries(batch)
        for part in Conversations(batch).look():
            binaries.look_at(part)
            if count:
                self.messages += len(part)
                self.progress(self.looked_at, self.messages)
        binaries.look_at_rows()
        if self.files:
            binaries.look_at_files()
        look_at_timeline(batch)
        look_at_counters(batch, self.grace)
        look_at_leases(batch)
        for finding in damaged_objects(
            StoredObject.objects.using(alias).filter(session__in=batch.sessions)
        ):
            batch.add(finding.kind, session=finding.session, row=finding.row)
        return batch

    def _look_at_the_rest(self, alias: str) -> Iterator[Result]:
        alone = StoredObject.objects.using(alias).filter(session=None)
        yield from map(Result, damaged_objects(alone))
        yield from map(Result, look_at_usage(alias, self._days, self._counted))
        if self.files:
            findings, deleted = look_at_storage(alias, mend=self.mend)
            for finding in findings:
                yield Result(finding, finding.kind is Kind.BLOB_FILES and deleted > 0)


def _subject(finding: Finding) -> Finding:
    """Tells what a finding is about: closing up a gap moves rows to other positions."""
    return finding if finding.row is None else replace(finding, position=None)


def _by_subject(findings: Sequence[Finding]) -> dict[Finding, Finding]:
    return {_subject(finding): finding for finding in findings}
