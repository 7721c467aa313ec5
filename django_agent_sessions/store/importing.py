"""What an import writes: sessions, and batches of messages with all that is known of them.

An import says in the session's ``origin`` how far it came, in the transaction of each batch. So it
can be killed at any moment, and the next one goes on behind what is there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from django.db import models
from django.db.models import Count, Max, Sum

from django_agent_sessions import conf, notifying, statements
from django_agent_sessions.blobs import Uploads
from django_agent_sessions.exceptions import SessionConflictError
from django_agent_sessions.ids import new_id
from django_agent_sessions.models import MAIN_BRANCH, Branch, SessionMessage
from django_agent_sessions.records import AgentRecord, SessionRecord, TurnCost

from . import SessionStore
from .base import repeatable, whole, write
from .copying import common
from .imported import ImportedMessage, ImportedRow

M = TypeVar("M", bound=models.Model)


@dataclass(frozen=True, slots=True)
class BranchEnd:
    """Where a branch of a conversation ends."""

    message_id: int
    id: UUID


class ImportStore(SessionStore):
    """A store that also takes in what was elsewhere; there is nothing async in it."""

    def find_imported(self, session_id: str) -> tuple[SessionRecord, Any] | None:
        """Reads a session, and where it came from."""
        found = self.find(session_id)
        if found is None:
            return None
        rows = self._all().filter(pk=found.id)
        return found, rows.values_list("origin", flat=True).first()

    def create_imported(
        self,
        session_id: str,
        *,
        origin: Mapping[str, Any],
        columns: Mapping[str, Any],
        created_at: datetime,
    ) -> SessionRecord:
        """Makes a session that says where it came from from its first moment on."""
        # Not of what a session is made with, but of what happens to it later.
        later = ("redaction_epoch", "redactions", "archived_at", "expires_at")
        given = {name: value for name, value in columns.items() if name not in later}
        rest = {name: columns[name] for name in later if name in columns}

        def make(unsure: bool) -> SessionRecord:
            if unsure and (found := self.find_imported(session_id)) and found[1] == origin:
                return found[0]
            with whole(self.using):
                made = self.create(session_id, created_at=created_at, **given)
                self._all().filter(pk=made.id).update(origin=origin, **rest)
            return made

        made = write(self.using, make, what=f"importing session {session_id!r}", savepoint=False)
        return made if not rest else self.get(session_id)

    def imported_row(self, dialect: str, message: ImportedMessage, *, keep: bool) -> ImportedRow:
        """Checks a message on its way in."""
        if message.redacted_at is not None:
            # The originals of edits stay under legal hold only, whose end lets go of them.
            keep = keep or conf.get_settings().REDACTION_KEEP_ORIGINAL
        return ImportedRow(self.using, dialect, message, keep=keep)

    def append_imported(
        self,
        session: SessionRecord,
        agent: AgentRecord,
        rows: Sequence[ImportedRow],
        *,
        origin: Mapping[str, Any],
    ) -> None:
        """Writes a batch of messages, and how far the import came: both or neither."""
        what = f"importing messages of agent {agent.agent_id!r} of session {session.session_id!r}"

        uploads = Uploads(self.using, session.id, rows)

        def append(unsure: bool) -> None:
            if unsure and self._all().filter(pk=session.id, origin=origin).exists():
                return
            with uploads.attempt(), whole(self.using):
                # The session's row first, as a redaction does.
                self._move(session, what, origin=origin)
                if uploads:
                    uploads.store()
                if rows:
                    statements.insert(self.using, [row.values(self.using, agent) for row in rows])
                if uploads:
                    uploads.refer()

        write(self.using, append, what=what, savepoint=False)

    def finish_import(
        self, session: SessionRecord, *, origin: Mapping[str, Any], columns: Mapping[str, Any]
    ) -> None:
        """Completes an import: the counters, the times, and that it is complete."""
        what = f"completing the import of session {session.session_id!r}"

        def finish(unsure: bool) -> None:
            counted = self._counted(session.id)
            self._move(session, what, origin=origin, **{**counted, **columns})

        write(self.using, finish, what=what)
        notifying.written(self.using, session.id)

    @repeatable
    def branch_ends(self, agent: AgentRecord) -> tuple[int, dict[int, BranchEnd]]:
        """Finds out how much of an agent's conversation is there."""
        rows = SessionMessage.objects.using(self.using).filter(agent=agent.id).order_by()
        found = list(rows.values("branch").annotate(last=Max("message_id"), count=Count("pk")))
        ends = {
            end["branch"]: BranchEnd(
                end["last"],
                rows.values_list("pk", flat=True).get(branch=end["branch"], message_id=end["last"]),
            )
            for end in found
        }
        return sum(end["count"] for end in found), ends

    @repeatable
    def keys_at(self, agent: AgentRecord) -> dict[tuple[int, int], UUID]:
        """Finds out which message is where."""
        rows = SessionMessage.objects.using(self.using).filter(agent=agent.id).order_by()
        return {(b, p): key for b, p, key in rows.values_list("branch", "message_id", "pk")}

    def import_branches(
        self,
        agent: AgentRecord,
        names: Mapping[int, tuple[str, datetime]],
        costs: Sequence[TurnCost],
    ) -> None:
        """Writes what is known of side branches, and of turns, unless it is written already."""
        what = f"importing branches of agent {agent.agent_id!r}"

        def write_rows(unsure: bool) -> None:
            with whole(self.using):
                self._locked(agent, what)
                there = set(self._branch_rows(agent).values_list("number", flat=True))
                for number in sorted(names.keys() - there):
                    name, created_at = names[number]
                    start = common(self.using, agent, MAIN_BRANCH, number)
                    made = self._insert_branch(
                        agent, number, name, MAIN_BRANCH, start, Branch.Kind.IMPORTED, what
                    )
                    self._branch_rows(agent).filter(pk=made.pk).update(created_at=created_at)
                self._import_costs(agent, costs)

        write(self.using, write_rows, what=what, savepoint=False)

    def free_key(self, model: type[M], key: UUID | None) -> UUID:
        """Takes a primary key that a file names, if nobody has it."""
        if key is None or model._base_manager.using(self.using).filter(pk=key).exists():
            return new_id()
        return key

    def _move(self, session: SessionRecord, what: str, **columns: Any) -> None:
        rows = self._all().filter(pk=session.id, redaction_epoch=session.redaction_epoch)
        if not rows.update(**columns):
            raise SessionConflictError(f"{what}: it was deleted or redacted meanwhile")

    def _counted(self, session: UUID) -> dict[str, Any]:
        rows = SessionMessage.objects.using(self.using).filter(session=session).order_by()
        found = rows.aggregate(
            message_count=Count("pk"),
            input_tokens=Sum("input_tokens"),
            output_tokens=Sum("output_tokens"),
        )
        return {name: value or 0 for name, value in found.items()}
