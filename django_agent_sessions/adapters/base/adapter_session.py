"""A session as an object of an adapter uses it, and what it takes back after a rollback."""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar
from uuid import UUID

from django.db import Error, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from django_agent_sessions.db import bridge
from django_agent_sessions.db.loop_ends import is_loop_ending
from django_agent_sessions.db.loop_guard import refuse_in_loop
from django_agent_sessions.exceptions import ConfigurationError, StaleSessionError
from django_agent_sessions.models.session_names import by_key
from django_agent_sessions.store import AppendSteps, SessionStore, arun_steps, run_steps
from django_agent_sessions.values import observing
from django_agent_sessions.values.ids import validate_id
from django_agent_sessions.values.records import AgentRecord, SessionRecord, Usage

from .exclusive import ExclusiveRuns

logger = logging.getLogger("django_agent_sessions")

R = TypeVar("R")
S = TypeVar("S")

MAX_RELOADS = 10
"""How often a write is retried after redactions and rewinds since the last read."""


@dataclass(frozen=True)
class Known:
    """What an object knows from the database. It is never changed, only replaced."""

    epoch: int | None = None
    """The redaction epoch that a write sends. One that is too old is safe: the write reloads."""

    failure: Error | None = None
    """The error that each write in the caller's transaction raises again."""


K = TypeVar("K", bound=Known)


class AdapterSession:
    """A session of an object; the first use reads it from the database, or creates it there.

    :meth:`run` and :meth:`arun` call a function in a database thread. The other methods query the
    database, and are called in such a function.

    It must not be part of a reference cycle, which would keep conversations in memory until the
    garbage collector runs.
    """

    def __init__(
        self,
        store: SessionStore,
        session_id: str | UUID,
        dialect: str,
        *,
        title: str = "",
        metadata: Mapping[str, Any] | None = None,
        runs: ExclusiveRuns | None = None,
        memory: Memory[Any] | None = None,
    ) -> None:
        self.session_id = validate_id(session_id)
        self.store = store
        self.using = store.using
        self.dialect = dialect
        self.runs = runs
        self.memory: Memory[Any] = Memory(Known()) if memory is None else memory
        self._title = title
        self._metadata = metadata

    # --- which thread ------------------------------------------------------------------------

    def trace(self, key: Hashable = None) -> None:
        """Set the session on the caller's current span, if telemetry is on."""
        if (observer := observing.current) is not None:
            observer.use(self.store.namespace, self.session_id, key)

    def run(self, work: Callable[[], R], *, key: Hashable = None) -> R:
        """Run a function; under the lease of a run if the session is exclusive."""
        self.trace(key)
        return bridge.run_sync(self._guarded(work, key), using=self.using)

    async def arun(self, work: Callable[[], R], *, key: Hashable = None) -> R:
        """Async version of :meth:`run`, with a single thread switch."""
        self.trace(key)
        try:
            return await bridge.run_async(self._guarded(work, key), using=self.using)
        except asyncio.CancelledError:
            self._refuse_ended_loop()
            raise

    def run_steps(self, steps: AppendSteps[R], *, key: Hashable = None) -> R:
        """Run the steps of an append as :meth:`run` does a function."""
        return self.run(partial(run_steps, self.using, steps), key=key)

    async def arun_steps(self, steps: AppendSteps[R], order: object, *, key: Hashable = None) -> R:
        """Async version of :meth:`run_steps`. Appends with the same ``order`` share no group."""
        self.trace(key)
        try:
            return await arun_steps(self.using, id(order), self._guarded_steps(steps, key))
        except asyncio.CancelledError:
            self._refuse_ended_loop()
            raise

    def _refuse_ended_loop(self) -> None:
        """Log and raise an error if a run is cancelled because its event loop ends before it.

        No caller sees such a cancellation: a stream that is read in another loop, as Django does
        for an async view under WSGI, would end as if the answer were complete and empty.
        """
        if is_loop_ending():
            text = (
                f"the event loop of a run in session {self.session_id!r} ended before the run, "
                "whose further messages are not stored: await the run, or start it in the "
                "generator that streams its answer and not in the view"
            )
            logger.error(text)
            raise ConfigurationError(text) from None

    def _guarded(self, work: Callable[[], R], key: Hashable) -> Callable[[], R]:
        def guarded() -> R:
            self._begin(key)
            try:
                return work()
            except Error as error:
                self.note_failure(error)
                raise

        return guarded

    def _guarded_steps(self, steps: AppendSteps[R], key: Hashable) -> AppendSteps[R]:
        self._begin(key)
        try:
            return (yield from steps)
        except Error as error:
            self.note_failure(error)
            raise

    def _begin(self, key: Hashable) -> None:
        if self.runs is not None:
            self.runs.check(key)
        self.memory.track(self.using)
        failure = self.memory.known.failure
        if failure is not None and connections[self.using].in_atomic_block:
            # The database may have rolled the transaction back: a write would be refused with
            # another error, which hides this one, or be committed without what came before it.
            raise failure

    def note_failure(self, error: Error) -> None:
        """Note an error of the database that an operation raises.

        For an SDK whose hooks hide errors; where the caller sees them, there is nothing to note.
        """

    def open(self) -> SessionRecord:
        """Read the session, or create it."""
        return self.store.open(self.session_id, title=self._title, metadata=self._metadata)

    # --- writes ------------------------------------------------------------------------------

    def reload_if_stale(self, write: Callable[[], R], reload: Callable[[], object]) -> R:
        """Write, and reload and retry after each redaction or rewind since the last read.

        ``write`` sends the redaction epoch that was read, and ``reload`` updates it.
        """
        for _ in range(MAX_RELOADS):
            try:
                return write()
            except StaleSessionError:
                reload()
        return write()

    def after_run(self, session: UUID, usage: Usage) -> None:
        """Add the usage of a run that ended to the session's counters."""
        self.store.touch(by_key(session), usage)

    # --- exclusive runs ----------------------------------------------------------------------

    def exclusive(self, *, key: Hashable = None) -> ExclusiveBlock:
        """Return a block, ``with`` or ``async with``, in which no other run uses the session."""
        if self.runs is None:
            raise ConfigurationError(
                f"session {self.session_id!r} is not exclusive: create it with exclusive=True, or "
                "use it without a with block"
            )
        return ExclusiveBlock(self, self.runs, key)


def check_dialect(agent: AgentRecord, dialect: str) -> None:
    """Reject an agent whose messages have the format of another SDK."""
    if agent.dialect != dialect:
        raise ConfigurationError(
            f"agent {agent.agent_id!r} contains messages in the format {agent.dialect!r}, not "
            f"{dialect!r}: use another session_id, namespace or agent_id"
        )


class ExclusiveBlock:
    """A block that waits for the session's lease and creates the session if it does not exist."""

    def __init__(self, session: AdapterSession, runs: ExclusiveRuns, key: Hashable) -> None:
        self._session = session
        self._runs = runs
        self._key = key

    def __enter__(self) -> None:
        refuse_in_loop("`with`", "use `async with`")
        session = bridge.run_sync(self._session.open, using=self._session.using)
        self._runs.begin(session, self._session.using, self._key)

    def __exit__(self, *error: object) -> None:
        self._runs.end(self._key)

    # Not a generator: an SDK may leave a loop in which no async generator can be started.
    async def __aenter__(self) -> None:
        session = await bridge.run_async(self._session.open, using=self._session.using)
        await self._runs.abegin(session, self._session.using, self._key)

    async def __aexit__(self, *error: object) -> None:
        await self._runs.aend(self._key)


class Checkpoint(Generic[S]):
    """What was known before a transaction or savepoint, until its commit."""

    def __init__(self, connection: BaseDatabaseWrapper, known: S) -> None:
        self.known = known
        self.savepoints = tuple(connection.savepoint_ids)
        self._connection = weakref.ref(connection)
        self._committed = False
        transaction.on_commit(self._commit, using=connection.alias)

    def is_of(self, connection: BaseDatabaseWrapper) -> bool:
        """Return whether it is of the connection's present transaction or savepoint."""
        savepoints = tuple(connection.savepoint_ids)
        return self._connection() is connection and self.savepoints == savepoints

    def is_open(self) -> bool:
        """Return whether its transaction may still be rolled back."""
        # Django drops the calls of a transaction or savepoint that is rolled back.
        connection = self._connection()
        waiting = [] if connection is None else connection.run_on_commit
        return any(call[1] == self._commit for call in waiting)

    def is_needed(self) -> bool:
        """Return whether it may be rolled back by itself: its savepoint was not released."""
        connection = self._connection()
        ids = [] if connection is None else connection.savepoint_ids
        return self.is_open() and set(self.savepoints) <= set(ids)

    def was_rolled_back(self) -> bool:
        return not self._committed and not self.is_open()

    def _commit(self) -> None:
        self._committed = True


class Memory(Generic[K]):
    """What an object knows from the database, which is put back whole after a rollback.

    Even the redaction epoch: one that was rolled back may become that of another redaction.
    """

    def __init__(self, known: K) -> None:
        self.known = known
        self._checkpoints: list[Checkpoint[K]] = []

    def change(self, **changes: Any) -> None:
        """Replace what is known by the same with other values."""
        self.known = replace(self.known, **changes)

    def track(self, using: str) -> None:
        """Put back what was known before a rollback; keep what is known before this transaction."""
        connection = connections[using]
        if not (self._checkpoints or connection.in_atomic_block):
            return
        for index, checkpoint in enumerate(self._checkpoints):
            if checkpoint.was_rolled_back():
                self.known = checkpoint.known
                del self._checkpoints[index:]
                break
        self._checkpoints = [one for one in self._checkpoints if one.is_needed()]
        if connection.in_atomic_block and not any(
            checkpoint.is_of(connection) for checkpoint in self._checkpoints
        ):
            self._checkpoints.append(Checkpoint(connection, self.known))
