"""Append messages to conversations, in batches."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from typing import NoReturn, TypeAlias, TypeVar, cast
from uuid import UUID

from django.db import IntegrityError, connections
from django.utils import timezone

from django_agent_sessions import conf
from django_agent_sessions.db.connection_state import in_caller_transaction
from django_agent_sessions.db.db_errors import RetryError, is_duplicate
from django_agent_sessions.db.loop_guard import sync_only
from django_agent_sessions.db.retries import tracked_atomic, write
from django_agent_sessions.db.write_hooks import on_written
from django_agent_sessions.exceptions import SessionConflictError, StaleSessionError
from django_agent_sessions.models import Session, SessionAgent, SessionMessage
from django_agent_sessions.models.removed_messages import removed_positions
from django_agent_sessions.sql import appends
from django_agent_sessions.sql.counters import CounterUpdate
from django_agent_sessions.sql.statement_sizes import check_statement_size
from django_agent_sessions.values import observing
from django_agent_sessions.values.records import Append, Written
from django_agent_sessions.values.run_context import current_run

from ._message_updates import update_row
from ._new_sessions import tell_created
from ._queries import agent_rows, conversation, lock_session_row, next_position, positions_of
from ._row_errors import agent_deleted
from ._rows import (
    MessageRow,
    database_values,
    split_into_statements,
    total_usage,
    uploads_of,
)

R = TypeVar("R")

AppendSteps: TypeAlias = Generator[Append | None, Written, R]
"""An append of an adapter, which runs in a database thread: it yields each ``Append``, is told what
was written, or the error, and returns its result. Before anything else that may wait, such as a
query, it yields None, and may go on in another thread then."""


def append_messages(using: str, append: Append, write: AppendWrite | None = None) -> Written:
    """Append messages: all of them or none. ``write`` has their rows, if they exist already."""
    if not append.messages:
        return []
    if (observer := observing.current) is None:
        return _append(using, append, write)
    ids = observing.agent_ids(append.agent)
    return observer.run("append", partial(_append, using, append, write), ids)


def _append(using: str, append: Append, write: AppendWrite | None) -> Written:
    write = write or AppendWrite(using, append)
    write.write(savepoint=False)
    return write.finish()


@partial(sync_only, twin="arun_steps")
def run_steps(using: str, steps: AppendSteps[R]) -> R:
    """Carry out the steps of an append in this thread."""
    return carry_out(using, steps)


def carry_out(using: str, steps: AppendSteps[R], answer: Callable[[], Written] | None = None) -> R:
    """Carry out steps; ``answer`` returns what those that were begun wait for."""
    try:
        append = next(steps) if answer is None else _go_on(steps, answer)
        while True:
            if append is None:
                append = next(steps)
            else:
                append = _go_on(steps, partial(append_messages, using, append))
    except StopIteration as end:
        return cast(R, end.value)


def _go_on(steps: AppendSteps[R], answer: Callable[[], Written]) -> Append | None:
    try:
        written = answer()
    except BaseException as error:
        return steps.throw(error)
    return steps.send(written)


class AppendWrite:
    """The rows of an append, and what becomes of them."""

    def __init__(self, using: str, append: Append) -> None:
        self.using, self.append, self.agent = using, append, append.agent
        self.what = f"appending to agent {self.agent.agent_id!r}"
        # One time, one run and one reading of the settings for all rows.
        self.now, run, settings = timezone.now(), current_run(), conf.get_settings()
        self.rows = self.new = [
            MessageRow(
                self.agent.dialect,
                message,
                run.run_id if append.run_id is None else append.run_id,
                author=run.author,
                now=self.now,
                settings=settings,
            )
            for message in append.messages
        ]
        self.positions: dict[UUID, int] = {}
        self.expected = append.expected
        if append.again:
            self.positions = self._rewrite()
            self.expected = self._expected()
            self.new = [row for row in self.rows if row.id not in self.positions]
        self.parts = split_into_statements(self.new) if self.new else []
        self.connection = connections[using]
        if self.connection.vendor == "mysql":
            for part in self.parts:
                check_statement_size(using, (text for row in part for text in row.texts))
        self.uploads = None
        if any(row.has_binaries for row in self.new):
            self.uploads = uploads_of(using, self.agent.session, self.new)
        self.first: int | None = None
        self.tried = False

    @property
    def counting(self) -> CounterUpdate | None:
        if not self.append.count:
            return None
        return CounterUpdate(self.agent.session, total_usage(self.new), self.now)

    @property
    def is_one_statement(self) -> bool:
        return len(self.parts) == 1 and not self.uploads

    def finish(self) -> Written:
        """Tell that the rows were written, and return them with their positions."""
        if (observer := observing.current) is not None:
            observer.count_written(len(self.new), sum(row.byte_count for row in self.new))
        agent = self.agent
        on_written(self.using, agent.session, "append", agent=agent.id, added=len(self.new))
        first = self.first or 0
        if not self.positions:
            return [row.record(position) for position, row in enumerate(self.rows, first)]
        new_positions = itertools.count(first)
        return [
            row.record(self.positions[row.id] if row.id in self.positions else next(new_positions))
            for row in self.rows
        ]

    def write(self, *, savepoint: bool) -> None:
        """Write the rows, and retry; raise what prevents it."""
        if not self.new:
            return
        # A savepoint is needed only where a conflict of positions aborts the transaction: on
        # PostgreSQL, for several rows (a single row has ON CONFLICT DO NOTHING).
        several = len(self.new) > 1 and self.connection.vendor == "postgresql"
        write(self.using, self._attempt, what=self.what, savepoint=savepoint or several)

    def insert(self) -> None:
        """Write the rows, in the present transaction if they are several parts."""
        self.tried = True
        if self.uploads:
            lock_session_row(self.using, self.agent.session)
            self.uploads.store()
        elif self.connection.vendor == "mysql":
            # An append takes a shared lock on the row, and updating the counters needs an exclusive
            # one: two concurrent transactions would deadlock on the upgrade.
            lock_session_row(self.using, self.agent.session)
        counting = self.counting
        position = self.expected
        for part in self.parts:
            first = appends.append(
                self.using,
                self.agent.id,
                database_values(part, self.agent.session, self.connection, self.now),
                branch=self.agent.branch,
                expected=position,
                epoch=self.append.epoch,
                counting=counting,
            )
            if first is None:
                raise RetryError
            if part is self.parts[0]:
                self.first = first
            # The first part counts all of them.
            position, counting = first + len(part), None
        if self.uploads:
            self.uploads.create_references()

    def _attempt(self, unsure: bool) -> None:
        if self.tried:
            if self._was_written():
                return
            self._require_free_external_ids()
        self.tried = True
        with self.uploads.attempt() if self.uploads else nullcontext():
            with suppress(RetryError), self._transaction():
                return self.insert()
            self._raise_reason()

    def _transaction(self) -> AbstractContextManager[None]:
        if self.is_one_statement and self._is_all_or_nothing():
            return nullcontext()
        return tracked_atomic(self.using)

    def _is_all_or_nothing(self) -> bool:
        """Return whether the statements need no transaction or savepoint to be undone together."""
        counts = self.append.count
        if self.connection.vendor == "sqlite":
            return not self.connection.in_atomic_block or not (len(self.new) > 1 or counts)
        return self.connection.vendor == "postgresql" or not counts

    def _was_written(self) -> bool:
        """Return whether an earlier attempt wrote the rows although it seemed to fail."""
        keys = [row.id for row in self.new]
        rows = SessionMessage.objects.using(self.using).filter(pk__in=keys)
        values = list(rows.values_list("pk", "agent", "message_id"))
        if any(agent != self.agent.id for _, agent, _ in values):
            raise SessionConflictError(
                f"{self.what}: another conversation has a message with this id; use a new id"
            )
        positions = {key: position for key, _, position in values}
        # Another process may have removed some of them since, or all.
        positions = positions or removed_positions(SessionAgent, self.using, self.agent.id, keys)
        if not positions:
            return False
        key, position = positions.popitem()
        self.first = position - keys.index(key)
        return True

    def _require_free_external_ids(self) -> None:
        """Raise if a message of the branch has an external id of the new ones."""
        names = [row.external_id for row in self.new if row.external_id is not None]
        if not names:
            return
        rows = conversation(self.using, self.agent).filter(external_id__in=names)
        if (taken := rows.values_list("pk", flat=True).first()) or len(set(names)) < len(names):
            other = f"message {taken}" if taken else "another of these messages"
            raise SessionConflictError(f"{self.what}: {other} has the same external id")

    def _expected(self) -> int | None:
        """Return the expected position after what an earlier attempt wrote there."""
        if (expected := self.append.expected) is None:
            return None
        upto = expected + len(self.positions)
        return upto if sorted(self.positions.values()) == [*range(expected, upto)] else expected

    def _rewrite(self) -> dict[UUID, int]:
        """Update the rows that an earlier attempt wrote, and return their positions.

        Also of those that were removed since, which are not written again.
        """
        keys = [row.id for row in self.rows]
        positions = positions_of(self.using, keys, agent=self.agent)
        for row in self.rows:
            if row.id in positions:
                self._rewrite_row(row)
        if len(positions) < len(keys):
            removed = removed_positions(SessionAgent, self.using, self.agent.id, keys)
            return removed | positions
        return positions

    def _rewrite_row(self, row: MessageRow) -> None:
        rows = SessionMessage.objects.using(self.using).filter(
            agent=self.agent.id, pk=row.id, redacted_at__isnull=True
        )
        uploads = uploads_of(self.using, self.agent.session, [row])

        def update(unsure: bool) -> int:
            with uploads.attempt():
                return update_row(self.using, self.agent, rows, row, uploads)

        write(self.using, update, what=self.what)

    def _raise_reason(self) -> NoReturn:
        """Raise the reason why nothing was appended; RetryError for a conflict with a writer."""
        agents = SessionAgent.objects.using(self.using).filter(pk=self.agent.id)
        current_epoch = agents.values_list("session__redaction_epoch", flat=True).first()
        if current_epoch is None:
            raise agent_deleted(self.what, self.agent.session)
        self._require_free_external_ids()
        if self.append.epoch not in (None, current_epoch):
            raise StaleSessionError(
                f"{self.what}: content was redacted; reload the session and retry"
            )
        expected = self.expected
        if expected is not None and next_position(self.using, self.agent) != expected:
            raise SessionConflictError(
                f"{self.what}: another writer appended since position {expected} was read"
            )
        raise RetryError


class FirstWrite:
    """An agent, its first messages and perhaps its session, which are created together.

    ``append`` has the record of the agent's row. Without ``session``, the agent's session exists.
    """

    def __init__(
        self, using: str, agent: SessionAgent, append: Append, session: Session | None = None
    ) -> None:
        self._using, self._agent, self._session = using, agent, session
        self._append = AppendWrite(using, append)
        if session is not None:
            spent = total_usage(self._append.new)
            session.message_count = spent.messages
            session.input_tokens, session.output_tokens = spent.input_tokens, spent.output_tokens
            session.cache_read_tokens = spent.cache_read_tokens
            session.cache_write_tokens = spent.cache_write_tokens
            session.cost = spent.cost
            session.error_count, session.has_errors = spent.errors, spent.errors > 0

    def write(self) -> Written:
        """Write all or nothing.

        Raises ``SessionConflictError`` if nothing was written and the agent has to be opened.
        """
        connection = connections[self._using]
        conflict = SessionConflictError(f"{self._append.what}: it was not created; open it")
        # Without autocommit, SQLite would commit what is in a savepoint at its end.
        if in_caller_transaction(connection) and not connection.in_atomic_block:
            raise conflict

        def attempt(unsure: bool) -> bool:
            if unsure and agent_rows(self._using).filter(pk=self._agent.pk).exists():
                self._append.first = 0
                return True
            return self._insert()

        if not write(self._using, attempt, what=self._append.what, savepoint=False):
            raise conflict
        if self._session is not None:
            tell_created(self._using, self._session, "create")
        return self._append.finish()

    def _insert(self) -> bool:
        uploads = self._append.uploads
        try:
            with uploads.attempt() if uploads else nullcontext(), tracked_atomic(self._using):
                if self._session is None:
                    lock_session_row(self._using, self._append.agent.session)
                else:
                    self._session.save(using=self._using, force_insert=True)
                self._agent.save(using=self._using, force_insert=True)
                self._append.insert()
        except RetryError:
            return False
        except IntegrityError as error:
            if is_duplicate(error):
                return False
            raise
        return True
