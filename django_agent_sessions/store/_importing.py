"""Write imported sessions and messages in batches.

An import stores its progress in the session's ``origin``, in the transaction of each batch. A
killed import can therefore be resumed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from django.db import models
from django.db.models import Count, Max, Sum

from django_agent_sessions import conf
from django_agent_sessions.blobs import Uploads
from django_agent_sessions.db.write_hooks import on_written
from django_agent_sessions.exceptions import SessionConflictError
from django_agent_sessions.models import MAIN_BRANCH, Branch, SessionMessage
from django_agent_sessions.sql import message_writes
from django_agent_sessions.values.ids import new_id
from django_agent_sessions.values.records import AgentRecord, SessionRecord, TurnCost

from ._agent_states import lock_agent
from ._base import retry_reads, tracked_atomic, write
from ._branch_steps import insert_branch
from ._imported import ImportedMessage, ImportedRow
from ._message_copies import common_prefix_length
from ._queries import branch_rows, session_rows
from ._store import StoreOperations
from ._turns import import_costs

M = TypeVar("M", bound=models.Model)


@dataclass(frozen=True, slots=True)
class BranchEnd:
    """The last message of a branch."""

    message_id: int
    id: UUID


class ImportStore(StoreOperations):
    """Imported data of a store. It has no async twins."""

    def find_imported(self, session_id: str) -> tuple[SessionRecord, Any] | None:
        """Read a session and its ``origin``; None if the session does not exist."""
        session = self.store.find(session_id)
        if session is None:
            return None
        rows = session_rows(self.using).filter(pk=session.id)
        return session, rows.values_list("origin", flat=True).first()

    def create_imported(
        self,
        session_id: str,
        *,
        origin: Mapping[str, Any],
        columns: Mapping[str, Any],
        created_at: datetime,
    ) -> SessionRecord:
        """Create a session with its ``origin``, in one transaction."""
        # `create` takes no columns that change only after the creation.
        later = ("redaction_epoch", "redactions", "archived_at", "expires_at")
        initial = {name: value for name, value in columns.items() if name not in later}
        later_columns = {name: columns[name] for name in later if name in columns}

        def make(unsure: bool) -> SessionRecord:
            if unsure and (existing := self.find_imported(session_id)) and existing[1] == origin:
                return existing[0]
            with tracked_atomic(self.using):
                created = self.store.create(session_id, created_at=created_at, **initial)
                session_rows(self.using).filter(pk=created.id).update(
                    origin=origin, **later_columns
                )
            return created

        created = write(self.using, make, what=f"importing session {session_id!r}", savepoint=False)
        return created if not later_columns else self.store.get(session_id)

    def imported_row(self, dialect: str, message: ImportedMessage, *, keep: bool) -> ImportedRow:
        """Validate an imported message, and return its row."""
        if message.redacted_at is not None:
            # An edited message keeps its original under legal hold only; the release deletes it.
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
        """Write a batch of messages and the import's progress, in one transaction."""
        what = f"importing messages of agent {agent.agent_id!r} of session {session.session_id!r}"

        uploads = Uploads(self.using, session.id, rows)

        def append(unsure: bool) -> None:
            if unsure and session_rows(self.using).filter(pk=session.id, origin=origin).exists():
                return
            with uploads.attempt(), tracked_atomic(self.using):
                # Lock the session's row first, as a redaction does.
                _update_session(self.using, session, what, origin=origin)
                if uploads:
                    uploads.store()
                if rows:
                    message_writes.insert(
                        self.using, [row.values(self.using, agent) for row in rows]
                    )
                if uploads:
                    uploads.create_references()

        write(self.using, append, what=what, savepoint=False)

    def finish_import(
        self, session: SessionRecord, *, origin: Mapping[str, Any], columns: Mapping[str, Any]
    ) -> None:
        """Write the counters and dates of an imported session, and that the import is complete."""
        what = f"completing the import of session {session.session_id!r}"

        def finish(unsure: bool) -> None:
            counters = _count_messages(self.using, session.id)
            _update_session(self.using, session, what, origin=origin, **{**counters, **columns})

        write(self.using, finish, what=what)
        on_written(self.using, session.id, "import")

    @retry_reads
    def branch_ends(self, agent: AgentRecord) -> tuple[int, dict[int, BranchEnd]]:
        """Return the number of an agent's messages, and the last message of each branch."""
        rows = SessionMessage.objects.using(self.using).filter(agent=agent.id).order_by()
        last_rows = list(rows.values("branch").annotate(last=Max("message_id"), count=Count("pk")))
        ends = {
            end["branch"]: BranchEnd(
                end["last"],
                rows.values_list("pk", flat=True).get(branch=end["branch"], message_id=end["last"]),
            )
            for end in last_rows
        }
        return sum(end["count"] for end in last_rows), ends

    @retry_reads
    def keys_by_position(self, agent: AgentRecord) -> dict[tuple[int, int], UUID]:
        """Return the primary keys of an agent's messages by branch and position."""
        rows = SessionMessage.objects.using(self.using).filter(agent=agent.id).order_by()
        return {(b, p): key for b, p, key in rows.values_list("branch", "message_id", "pk")}

    def import_branches(
        self,
        agent: AgentRecord,
        names: Mapping[int, tuple[str, datetime]],
        costs: Sequence[TurnCost],
    ) -> None:
        """Write the missing rows of side branches and of turn usage."""
        what = f"importing branches of agent {agent.agent_id!r}"

        def write_rows(unsure: bool) -> None:
            with tracked_atomic(self.using):
                lock_agent(self.using, agent, what)
                existing = set(branch_rows(self.using, agent).values_list("number", flat=True))
                for number in sorted(names.keys() - existing):
                    name, created_at = names[number]
                    start = common_prefix_length(self.using, agent, MAIN_BRANCH, number)
                    row = insert_branch(
                        self.using,
                        agent,
                        number,
                        name,
                        MAIN_BRANCH,
                        start,
                        Branch.Kind.IMPORTED,
                        what,
                    )
                    branch_rows(self.using, agent).filter(pk=row.pk).update(created_at=created_at)
                import_costs(self.using, agent, costs)

        write(self.using, write_rows, what=what, savepoint=False)

    def unused_or_new_key(self, model: type[M], key: UUID | None) -> UUID:
        """Return an imported primary key if it is unused, otherwise a new one."""
        if key is None or model._base_manager.using(self.using).filter(pk=key).exists():
            return new_id()
        return key


def _update_session(using: str, session: SessionRecord, what: str, **columns: Any) -> None:
    rows = session_rows(using).filter(pk=session.id, redaction_epoch=session.redaction_epoch)
    if not rows.update(**columns):
        raise SessionConflictError(f"{what}: the session was deleted or redacted meanwhile")


def _count_messages(using: str, session: UUID) -> dict[str, Any]:
    rows = SessionMessage.objects.using(using).filter(session=session).order_by()
    totals = rows.aggregate(
        message_count=Count("pk"),
        input_tokens=Sum("input_tokens"),
        output_tokens=Sum("output_tokens"),
    )
    return {name: value or 0 for name, value in totals.items()}
