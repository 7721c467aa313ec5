"""Import of an agent's messages: positions, time-ordered keys, and batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID, uuid5

from django_agent_sessions.exceptions import AgentSessionsError, InvalidIdError, PayloadError
from django_agent_sessions.store import SessionStore
from django_agent_sessions.store.importing import (
    COUNT_COLUMNS,
    ImportedFeedback,
    ImportedRow,
    ImportStore,
    plausible_count,
)
from django_agent_sessions.values.ids import MAX_ID_LENGTH, id_for_time, time_of_id, validate_id
from django_agent_sessions.values.records import AgentRecord, NewMessage, SessionRecord

from .feedback_import import imported_feedback
from .reports import ImportRun
from .sources import Skipped, SourceAgent, SourceMessage, SourceSession
from .untrusted import MAX_INTEGER, valid_count, valid_key, valid_time

_ROOM = 2 * 1024 * 1024

CHANGED_REASON = (
    "it was changed since its import was interrupted: delete it to import it again, or choose "
    "another --namespace"
)
"""The reason for which an import is not continued."""


class ChangedError(AgentSessionsError):
    """Another process wrote to a session whose import is not complete."""


IMPORTED_AUTHOR = "imported:"
"""What precedes the author of an imported message, because the source has other users."""

_REDACTED_REASON = "an equal message was redacted before: it was imported as redacted"


def _imported_author(author: str) -> str:
    if not author or author.startswith(IMPORTED_AUTHOR):
        return author
    return f"{IMPORTED_AUTHOR}{author}"[:MAX_ID_LENGTH]


class SessionImportProtocol(Protocol):
    """The attributes of a session's import that its conversations use."""

    run: ImportRun
    found: SourceSession
    all: SessionStore
    target: ImportStore
    all_targets: ImportStore
    now: datetime
    created_at: datetime
    origin: dict[str, Any]
    mark: dict[str, Any]
    fresh: bool

    def skip(self, place: str, reason: str, *, error: bool = True) -> None:
        """Record an item that was not imported, or not as it is."""
        ...


class MessageImport:
    """The import of an agent's messages."""

    def __init__(
        self,
        parent: SessionImportProtocol,
        session: SessionRecord,
        record: AgentRecord,
        agent: SourceAgent,
        place: str,
    ) -> None:
        self.parent, self.run = parent, parent.run
        self.session, self.record, self.agent, self.place = session, record, agent, place
        self.rows: list[ImportedRow] = []
        self.room = _ROOM
        self.next: dict[int, int] = {}
        self.floor: dict[int, datetime] = {}
        # Numbers of messages read from the source, and of written ones.
        self.read, self.written = parent.mark["agents"].get(agent.agent_id, (0, 0))
        self.saved = self.read
        # External ids that are taken, with their branches.
        self.named: set[tuple[int, str | None]] = set()
        # Keys of the first copies of messages on several branches.
        self.shared: dict[str, UUID] = {}

    def take(self) -> datetime | None:
        """Import the messages; return the time of the last one."""
        if not self.parent.fresh:
            self._find_position()
        latest: datetime | None = None
        shared_messages: list[SourceMessage] = []
        read_before = self.read
        for index, found in enumerate(self.agent.messages):
            if index >= self.read:
                self._message(index, found)
                self.read += 1
                if len(self.rows) >= self.run.batch or self.room <= 0:
                    self._flush()
            elif isinstance(found, SourceMessage) and found.shared:
                shared_messages.append(replace(found, payload=None))
            if index + 1 == read_before:
                self._find_shared_rows(shared_messages)
            if isinstance(found, SourceMessage):
                latest = max(filter(None, (latest, valid_time(found.created_at))), default=None)
        self._flush()
        return latest

    def _find_position(self) -> None:
        """Find the position to continue at; raise if another process wrote messages."""
        written, ends = self.parent.all_targets.branch_ends(self.record)
        if written != self.written:
            raise ChangedError(CHANGED_REASON)
        self.named = self.parent.all_targets.external_ids(self.record)
        for branch, end in ends.items():
            self.next[branch] = end.message_id + 1
            self.floor[branch] = valid_time(time_of_id(end.id)) or self.parent.created_at

    def _find_shared_rows(self, shared_messages: list[SourceMessage]) -> None:
        """Find the rows of shared messages that an earlier run has written."""
        if not shared_messages or len(shared_messages) != self.written:
            # Some were not imported, so that positions do not match.
            return
        keys = self.parent.all_targets.keys_by_position(self.record)
        counts: Counter[int] = Counter()
        for found in shared_messages:
            place = (found.branch, counts[found.branch])
            counts[found.branch] += 1
            if place in keys:
                self.shared.setdefault(found.shared, keys[place])

    def _message(self, index: int, found: SourceMessage | Skipped) -> None:
        if isinstance(found, Skipped):
            self.run.report.skip(found)
            return
        try:
            row = self._row(index, found)
        except PayloadError as error:
            self.parent.skip(f"{self.place}, message {index}", str(error))
            return
        if self.rows and row.size > self.room:
            # A large message is written separately, because servers limit the statement size.
            self._flush()
        for skipped in found.skipped:
            self.run.report.skip(skipped)
        self.next[found.branch] = row.position + 1
        if found.shared:
            self.shared.setdefault(found.shared, row.id)
        self.rows.append(row)
        self.room -= row.size

    def _row(self, index: int, found: SourceMessage) -> ImportedRow:
        branch, first = found.branch, self.next.get(found.branch, 0)
        position = found.columns.get("message_id", first)
        if not 0 <= branch <= MAX_INTEGER or not first <= position <= MAX_INTEGER:
            raise PayloadError("its branch or position is invalid or already used")
        floor = self.floor.get(branch, self.parent.created_at)
        made = valid_time(found.created_at) or floor
        # Keys are ordered by time within a conversation, and must precede those of messages that
        # the application adds from now on.
        past = min(made, self.parent.now)
        self.floor[branch] = max(self.floor.get(branch, past), past)
        columns = found.columns
        row_key = valid_key(columns.get("id"), self.parent.now) or id_for_time(
            self.floor[branch], position
        )
        updated = valid_time(found.updated_at)
        redacted_at = None
        if found.redact_message is not None:
            redacted_at = valid_time(columns.get("redacted_at")) or updated or made
        figures = {
            name: plausible_count(columns[name]) for name in COUNT_COLUMNS if name in columns
        }
        return ImportedRow(
            self.parent.target.using,
            self.record.dialect,
            NewMessage(
                found.payload if redacted_at is None else found.redact_message,
                row_key,
                made,
                updated or made,
                model=columns.get("model", ""),
                external_id=self._external_id(index, branch, columns),
                author=_imported_author(columns.get("author") or ""),
            ),
            self._run(found.run),
            {
                "branch": branch,
                "message_id": position,
                "source": self.shared.get(found.shared),
                "redacted_at": redacted_at,
                "redaction": columns.get("redaction"),
                "revision": valid_count(columns.get("revision")) or 0,
            },
            original=found.payload,
            figures={**figures, "has_error": columns.get("has_error") is True},
            feedback=self._feedback(index, found, made),
        )

    def _external_id(self, index: int, branch: int, columns: Mapping[str, Any]) -> str | None:
        name: str | None = columns.get("external_id")
        if name is None:
            return None
        try:
            validate_id(name, "its external_id")
        except InvalidIdError as error:
            self.parent.skip(f"{self.place}, message {index}, external id", str(error))
            return None
        if (branch, name) in self.named:
            reason = "another message has this external id"
            self.parent.skip(f"{self.place}, message {index}, external id", reason)
            return None
        self.named.add((branch, name))
        return name

    def _feedback(
        self, index: int, found: SourceMessage, made: datetime
    ) -> Sequence[ImportedFeedback]:
        if not found.feedback:
            return ()
        known = self.parent.found.columns.get("owner")
        theirs = known.get("id") if isinstance(known, dict) else None
        feedback, duplicates = imported_feedback(
            found.feedback,
            owners=(theirs, self.session.owner_id),
            made=made,
            now=self.parent.now,
        )
        if duplicates:
            self.parent.skip(
                f"{self.place}, message {index}",
                f"{duplicates} of its feedback has the same user and source as another",
            )
        return feedback

    def _run(self, run: str) -> UUID | None:
        if not run:
            return None
        try:
            return UUID(run)
        except ValueError:
            # Deterministic, so that a continued import uses the same run id.
            return uuid5(self.session.id, run.encode("utf-8", "replace").decode())

    def _flush(self) -> None:
        if self.read == self.saved:
            return
        masked = self.parent.target.mask_originals(self.record.dialect, self.rows)
        for index in masked:
            place = f"{self.place}, message {self.rows[index].position}"
            self.parent.skip(place, _REDACTED_REASON, error=False)
        self.written += len(self.rows)
        self.parent.mark["agents"][self.agent.agent_id] = [self.read, self.written]
        if not self.run.dry_run:
            self._replace_used_keys()
            self.parent.target.append_imported(
                self.session,
                self.record,
                self.rows,
                origin=self.parent.origin,
                is_masked=bool(masked),
            )
        self.run.report.messages += len(self.rows)
        self.rows, self.room, self.saved = [], _ROOM, self.read
        self.run.progress(self.run.report)

    def _replace_used_keys(self) -> None:
        """Replace the keys of messages that exist already."""
        if not self.agent.columns:
            # Only this package's format has keys; other sources have newly created ones.
            return
        taken = set(self.parent.all.messages.positions([row.id for row in self.rows]))
        replaced: dict[UUID | None, UUID] = {}
        for row in self.rows:
            if row.id in taken:
                key = id_for_time(min(row.created_at, self.parent.now), row.position)
                replaced.setdefault(row.id, key)
                row.id = key
            taken.add(row.id)
            # A copy refers to the new key of its original.
            source = row.columns["source"]
            row.columns["source"] = replaced.get(source, source)
        self.shared = {name: replaced.get(key, key) for name, key in self.shared.items()}
