"""Write imported sessions and messages in batches.

An import stores its progress in the session's ``origin``, in the transaction of each batch. A
killed import can therefore be resumed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from django.db import connections, models
from django.db.models import Count, Max, Sum
from django.utils import timezone

from django_agent_sessions import conf
from django_agent_sessions.content import dialects, masking
from django_agent_sessions.content.dialects import displayable
from django_agent_sessions.content.masking.on_write import mask_on_write
from django_agent_sessions.db.retries import retry_reads, tracked_atomic, write
from django_agent_sessions.db.write_hooks import on_written
from django_agent_sessions.exceptions import PayloadError, SessionConflictError
from django_agent_sessions.models import SessionMessage
from django_agent_sessions.models.fields import CorruptPayload
from django_agent_sessions.models.functions import error_count, message_count
from django_agent_sessions.sql import message_writes
from django_agent_sessions.sql.statement_sizes import check_statement_size
from django_agent_sessions.values.ids import new_id
from django_agent_sessions.values.records import AgentRecord, NewMessage, SessionRecord, TurnCost

from ._agent_states import lock_agent
from ._branch_steps import insert_branch
from ._change_numbers import clear_derived_titles
from ._context import StoreOperations
from ._counters import set_error_count
from ._feedback import ImportedFeedback, insert_feedback
from ._held_copies import keep
from ._message_copies import common_prefix_length
from ._queries import agent_rows, branch_rows, session_rows
from ._redacted_originals import are_originals
from ._reviews import ImportedReview, insert_review
from ._rows import MessageRow, database_values, uploads_of
from ._turns import import_costs

_MAX_COUNT = 2**40
_ROW_NAMES = tuple(field.name for field in message_writes.WIDE_FIELDS)
_FIELDS = {field.name: field for field in message_writes.ALL_FIELDS}
CACHE_COLUMNS = ("cache_read_tokens", "cache_write_tokens")
COUNT_COLUMNS = ("input_tokens", "output_tokens", *CACHE_COLUMNS, "latency_ms")
"""Columns with token counts and the latency; ``CACHE_COLUMNS`` are the tokens of a cache."""

MAX_COST = 2**60
"""The limit of an imported cost, in billionths."""


class ImportedRow(MessageRow):
    """The row of an imported message, for :meth:`ImportStore.append_imported`.

    ``new`` has the payload that the source shows, ``original`` is the payload before a redaction.
    ``columns`` are those that a new message does not have; ``figures`` the known token counts and
    latency, and whether the original was an error.
    """

    def __init__(
        self,
        using: str,
        dialect: str,
        new: NewMessage,
        run_id: UUID | None,
        columns: Mapping[str, Any],
        *,
        original: Any,
        figures: Mapping[str, Any],
        feedback: Sequence[ImportedFeedback] = (),
    ) -> None:
        super().__init__(dialect, _validated(new), run_id)
        # As the source has it.
        self.message = new.payload
        self.columns, self.feedback = dict(columns), feedback
        self._new, self._original, self._figures = new, original, figures
        check_statement_size(using, self.texts)

    @property
    def position(self) -> int:
        """The position in its branch."""
        position: int = self.columns["message_id"]
        return position

    @property
    def size(self) -> int:
        """Approximate size in memory, in bytes."""
        return sum(map(len, self.texts)) + sum(map(len, self.binaries.values()))

    def masked(self, using: str, dialect: str) -> ImportedRow:
        """Return the row of the message with all its content masked."""
        masked = masking.redact_message(dialect, self._original)
        return ImportedRow(
            using,
            dialect,
            replace(self._new, payload=masked),
            self.run_id,
            {**self.columns, "redacted_at": timezone.now()},
            original=masked,
            figures=self._figures,
            # Comments may quote what was redacted.
            feedback=[replace(one, comment="") for one in self.feedback],
        )

    def all_values(self, using: str, agent: AgentRecord) -> list[Any]:
        """Return the database values, in the order of :data:`message_writes.ALL_FIELDS`."""
        connection = connections[using]
        given = database_values([self], agent.session, connection, self.updated_at, whole=True)
        columns = dict(zip(_ROW_NAMES, *given, strict=True))
        others = {"session": agent.session, "agent": agent.id, **self.columns}
        columns |= {
            name: value and _FIELDS[name].get_db_prep_save(value, connection)
            for name, value in others.items()
        }
        columns |= {"change": 0, "redaction_change": None, **self._own_figures(agent.dialect)}
        return [columns[field.name] for field in message_writes.ALL_FIELDS]

    def _own_figures(self, dialect: str) -> dict[str, Any]:
        """Return the figures of the original, which its redaction may lack."""
        figures = dict(self._figures)
        had_error = figures.pop("has_error", False)
        if self.columns["redacted_at"] is None:
            return figures
        summary = dialects.get(dialect).summary(self._original)
        read = {name: plausible_count(getattr(summary, name)) for name in COUNT_COLUMNS}
        if had_error or summary.has_error:
            figures["has_error"] = True
        return {**read, **figures}


def _validated(new: NewMessage) -> NewMessage:
    """Validate and mask a payload that is not JSON in its source either."""
    if not isinstance(new.payload, CorruptPayload):
        return new
    text = new.payload.text
    if displayable(text) != text:
        raise PayloadError("the text is not JSON, and contains NUL or a lone surrogate")
    if len(text.encode()) > conf.get_settings().MAX_PAYLOAD_BYTES:
        raise PayloadError("the text is not JSON, and longer than MAX_PAYLOAD_BYTES")
    return replace(new, payload=CorruptPayload(str(mask_on_write(text))))


def plausible_count(value: Any, limit: int = _MAX_COUNT) -> int | None:
    """Return an imported count if it is plausible, otherwise None."""
    return value if type(value) is int and 0 <= value < limit else None


M = TypeVar("M", bound=models.Model)


@dataclass(frozen=True, slots=True)
class ImportedBranch:
    """A side branch; one without a ``name`` gets one that no other has.

    ``start`` is the number of messages that it shared with its ``parent``; None if it is unknown.
    """

    name: str | None
    created_at: datetime
    kind: str
    parent: int
    start: int | None


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
        later = ("title_derived", "redaction_epoch", "redactions", "archived_at", "expires_at")
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

    def mask_originals(self, dialect: str, rows: list[ImportedRow]) -> list[int]:
        """Replace messages that were redacted before; return their indexes in ``rows``.

        What the source shows is compared: an original that it kept is hidden here, too.
        """
        originals = are_originals(self.using, [row.message for row in rows])
        indexes = [index for index, is_original in enumerate(originals) if is_original]
        for index in indexes:
            rows[index] = rows[index].masked(self.using, dialect)
        return indexes

    def append_imported(
        self,
        session: SessionRecord,
        agent: AgentRecord,
        rows: Sequence[ImportedRow],
        *,
        origin: Mapping[str, Any],
        is_masked: bool = False,
    ) -> None:
        """Write a batch of messages and the import's progress, in one transaction.

        If some of them were masked, a title that was made from messages is emptied.
        """
        what = f"importing messages of agent {agent.agent_id!r} of session {session.session_id!r}"

        uploads = uploads_of(self.using, session.id, rows)

        def append(unsure: bool) -> None:
            if unsure and session_rows(self.using).filter(pk=session.id, origin=origin).exists():
                return
            with uploads.attempt(), tracked_atomic(self.using):
                # Lock the session's row first, as a redaction does.
                _update_session(self.using, session, what, origin=origin)
                if is_masked:
                    _empty_derived_title(self.using, session.id)
                if uploads:
                    uploads.store()
                if rows:
                    message_writes.insert(
                        self.using, [row.all_values(self.using, agent) for row in rows]
                    )
                insert_feedback(self.using, session.id, ((row.id, row.feedback) for row in rows))
                if uploads:
                    uploads.create_references()

        write(self.using, append, what=what, savepoint=False)

    def finish_import(
        self,
        session: SessionRecord,
        *,
        origin: Mapping[str, Any],
        columns: Mapping[str, Any],
        review: ImportedReview | None = None,
    ) -> None:
        """Write the counters, dates and review of a session, and that its import is complete."""
        what = f"completing the import of session {session.session_id!r}"

        def finish(unsure: bool) -> int:
            counters = _count_messages(self.using, session.id)
            done = session_rows(self.using).filter(pk=session.id, origin=origin)
            # The review once only; everything else can be written again.
            new = None if review is None or (unsure and done.exists()) else review
            with nullcontext() if new is None else tracked_atomic(self.using):
                _update_session(self.using, session, what, origin=origin, **{**counters, **columns})
                if new is not None:
                    insert_review(self.using, session.id, new)
            return int(counters["message_count"])

        added = write(self.using, finish, what=what, savepoint=review is None)
        on_written(self.using, session.id, "import", added=added)

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

    @retry_reads
    def external_ids(self, agent: AgentRecord) -> set[tuple[int, str | None]]:
        """Return the external ids of an agent's messages, with their branches."""
        rows = SessionMessage.objects.using(self.using).filter(agent=agent.id).order_by()
        known = rows.filter(external_id__isnull=False)
        return set(known.values_list("branch", "external_id"))

    def import_branches(
        self,
        agent: AgentRecord,
        branches: Mapping[int, ImportedBranch],
        costs: Sequence[TurnCost],
        *,
        main_name: str | None = None,
    ) -> None:
        """Write the missing rows of side branches and of turn usage.

        ``main_name`` is the name that the main branch had as a side branch.
        """
        what = f"importing branches of agent {agent.agent_id!r}"

        def write_rows(unsure: bool) -> None:
            with tracked_atomic(self.using):
                lock_agent(self.using, agent, what)
                existing = set(branch_rows(self.using, agent).values_list("number", flat=True))
                missing = branches.keys() - existing
                # The given names first, so that no other branch gets one of them.
                for number in sorted(missing, key=lambda one: (branches[one].name is None, one)):
                    self._import_branch(agent, number, branches[number], what)
                if main_name is not None:
                    agent_rows(self.using).filter(pk=agent.id).update(main_name=main_name)
                import_costs(self.using, agent, costs)

        write(self.using, write_rows, what=what, savepoint=False)

    def _import_branch(
        self, agent: AgentRecord, number: int, branch: ImportedBranch, what: str
    ) -> None:
        start = branch.start
        if start is None:
            start = common_prefix_length(self.using, agent, branch.parent, number)
        row = insert_branch(
            self.using, agent, number, branch.name, branch.parent, start, branch.kind, what
        )
        branch_rows(self.using, agent).filter(pk=row.pk).update(created_at=branch.created_at)

    def unused_or_new_key(self, model: type[M], key: UUID | None) -> UUID:
        """Return an imported primary key if it is unused, otherwise a new one."""
        if key is None or model._base_manager.using(self.using).filter(pk=key).exists():
            return new_id()
        return key


def _update_session(using: str, session: SessionRecord, what: str, **columns: Any) -> None:
    rows = session_rows(using).filter(pk=session.id, redaction_epoch=session.redaction_epoch)
    if not rows.update(**columns):
        raise SessionConflictError(f"{what}: the session was deleted or redacted meanwhile")


def _empty_derived_title(using: str, session: UUID) -> None:
    """Empty the title of a locked session as a redaction does: a hold keeps a copy."""
    rows = session_rows(using).filter(pk=session, title_derived=True)
    if (row := rows.first()) is not None:
        keep(using, row, rows, {"title": ""})
        clear_derived_titles(using, [session])


def _count_messages(using: str, session: UUID) -> dict[str, Any]:
    rows = SessionMessage.objects.using(using).filter(session=session).order_by()
    totals = rows.aggregate(
        message_count=message_count(),
        error_count=error_count(),
        input_tokens=Sum("input_tokens"),
        output_tokens=Sum("output_tokens"),
        cache_read_tokens=Sum("cache_read_tokens"),
        cache_write_tokens=Sum("cache_write_tokens"),
    )
    return {**totals, **set_error_count(totals["error_count"])}
