"""Base class of the store's parts, and the functions that run, retry and translate writes."""

from __future__ import annotations

import functools
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Concatenate, ParamSpec, TypeVar
from uuid import UUID

from django.db import DataError, Error, IntegrityError, connections, models, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from django_agent_sessions import conf
from django_agent_sessions.blobs import MessageGoneError
from django_agent_sessions.db import bridge
from django_agent_sessions.db.broken_connections import close_quietly, reset_lost_transaction
from django_agent_sessions.db.db_errors import (
    RetryError,
    is_conflict,
    is_duplicate,
    is_lost_connection,
)
from django_agent_sessions.exceptions import (
    AgentSessionsError,
    PayloadError,
    SessionConflictError,
    SessionNotFoundError,
)
from django_agent_sessions.models import Session
from django_agent_sessions.values.ids import validate_namespace
from django_agent_sessions.values.owners import EVERYBODY, NOBODY, owner_key, refuse_none

P = ParamSpec("P")
R = TypeVar("R")

_SHORTEST_WAIT, _LONGEST_CONFLICT_WAIT, _LONGEST_OUTAGE_WAIT = 0.001, 0.05, 1.0


class StorePart:
    def __init__(
        self,
        *,
        owner: Any = NOBODY,
        namespace: str = "",
        using: str | None = None,
        create: bool | None = None,
    ) -> None:
        refuse_none(owner)
        self._owner = owner
        self._creates = owner is not EVERYBODY if create is None else create
        self._namespace = validate_namespace(namespace)
        self._using = using

    @property
    def using(self) -> str:
        """The alias of the database."""
        return bridge.database(self._using)

    @property
    def namespace(self) -> str:
        """The namespace of the session ids."""
        return self._namespace

    @property
    def reach(self) -> Any:
        """The owner whose sessions the store reaches: a primary key, ``NOBODY`` or ``EVERYBODY``.

        Resolved at each use, because a lazy ``request.user`` queries the database, which a
        constructor in an event loop must not do.

        Raises:
            ConfigurationError: The owner is a user who cannot own sessions.
        """
        return owner_key(self._owner)

    @property
    def owner_id(self) -> Any:
        """Primary key of the owner of new sessions and objects; None for no owner.

        Raises:
            ConfigurationError: The owner is a user who cannot own sessions.
        """
        reach = self.reach
        return None if reach is NOBODY or reach is EVERYBODY else reach

    def _reaches(self, owner_id: Any) -> bool:
        """Return whether the store reaches rows with this owner, or without one (None)."""
        reach = self.reach
        return reach is EVERYBODY or owner_id == (None if reach is NOBODY else reach)

    def _lock_session_row(self, session: UUID) -> None:
        """Lock the session's row in a caller's transaction before any row that belongs to it.

        A redaction locks the session's row first. A transaction that locks rows in another order
        would deadlock with it.
        """
        connection = connections[self.using]
        if connection.in_atomic_block and connection.features.has_select_for_update:
            # The weaker lock, where available, does not block appends.
            weaker = connection.features.has_select_for_no_key_update
            rows = Session.objects.using(self.using).filter(pk=session)
            rows.select_for_update(no_key=weaker).values_list("pk").first()

    async def _arun(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await bridge.run_async(
            functools.partial(function, *args, **kwargs), using=self.using
        )


class RetryPolicy:
    """Retry budget of one call.

    Conflicts with other writers are short, so they are counted (``WRITE_RETRIES``). Outages last
    longer, so they are timed (``RETRY_SECONDS``).
    """

    def __init__(self) -> None:
        settings = conf.get_settings()
        self._conflicts_left = settings.WRITE_RETRIES
        self._deadline = time.monotonic() + settings.RETRY_SECONDS
        self._next_wait = _SHORTEST_WAIT

    def after_conflict(self) -> bool:
        """Wait briefly after a conflict with another writer; return False when no retry is left."""
        self._conflicts_left -= 1
        return self._conflicts_left > 0 and self._wait(_LONGEST_CONFLICT_WAIT)

    def after_outage(self) -> bool:
        """Wait after an outage or a lock timeout; return False when the time is used up."""
        return time.monotonic() < self._deadline and self._wait(_LONGEST_OUTAGE_WAIT)

    def _wait(self, longest: float) -> bool:
        # Jitter, so that two conflicting writers do not retry at the same moment.
        time.sleep(random.uniform(0, min(self._next_wait, longest)))  # noqa: S311 - not a secret
        self._next_wait = min(self._next_wait * 2, _LONGEST_OUTAGE_WAIT)
        return True


S = TypeVar("S", bound=StorePart)


def retry_reads(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Decorate a read-only method of the store so that it is retried after transient errors.

    A connection can end at any moment, also right after it was checked. A message can be deleted
    after its row was read and before its large binaries are.
    """

    @functools.wraps(method)
    def read(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        connection = connections[self.using]
        joined = in_caller_transaction(connection)
        retry = RetryPolicy()
        while True:
            try:
                with connection.wrap_database_errors:
                    return method(self, *args, **kwargs)
            except MessageGoneError:
                if not retry.after_conflict():
                    raise
            except Error as error:
                is_transient = is_conflict(error) or is_lost_connection(error)
                if joined or not (is_transient and retry.after_outage()):
                    raise
                if is_lost_connection(error):
                    close_quietly(connection)

    return read


def in_caller_transaction(connection: BaseDatabaseWrapper) -> bool:
    """Return whether the caller has a transaction open, so that nothing may be retried here.

    A retry on a new connection would lose the caller's earlier work.
    """
    reset_lost_transaction(connection)
    if connection.in_atomic_block or connection.connection is None:
        return connection.in_atomic_block
    return not connection.autocommit


def write(
    using: str,
    statement: Callable[[bool], R],
    *,
    what: str,
    savepoint: bool = True,
) -> R:
    """Run one write, and retry it after transient errors.

    Outside a transaction, conflicting positions, deadlocks, lost connections and server restarts
    are retried. In a caller's transaction only a conflicting position is; other errors are raised,
    because they also undo the caller's earlier work.
    """
    connection = connections[using]
    joined = in_caller_transaction(connection)
    own_savepoint = savepoint and connection.in_atomic_block
    retry = RetryPolicy()
    unsure = False
    while True:
        connected = connection.connection is not None
        failure = None
        try:
            # If closing the cursor fails too, Django does not wrap the driver's error.
            with (
                connection.wrap_database_errors,
                transaction.atomic(using) if own_savepoint else nullcontext(),
            ):
                return statement(unsure)
        except AgentSessionsError:
            raise
        except RetryError:
            pass
        except Error as error:
            failure = _translate(error, what, using)
            if failure is None and not is_duplicate(error):
                is_transient = is_conflict(error) or is_lost_connection(error)
                if joined or not (is_transient and retry.after_outage()):
                    raise
                if is_lost_connection(error):
                    # Without a connection nothing was sent.
                    sent = connected or connection.connection is not None
                    unsure = unsure or not was_rolled_back(error, otherwise=not sent)
                    close_quietly(connection)
                continue
        # Raised outside the except block, so that the database's message (PostgreSQL prints the
        # row's content) is not even the context of this error.
        if failure is not None:
            raise failure
        if not retry.after_conflict():
            raise SessionConflictError(
                f"{what}: each attempt conflicted with another writer; try again, or increase "
                "WRITE_RETRIES"
            )


@contextmanager
def tracked_atomic(using: str) -> Iterator[None]:
    """Open a transaction, and mark errors raised before its commit as without effect.

    :func:`write` then knows that a retry is safe although the connection was lost. Otherwise the
    same as ``transaction.atomic()``.
    """
    connection = connections[using]
    outermost = not in_caller_transaction(connection)
    before_commit = True
    try:
        with connection.wrap_database_errors, transaction.atomic(using):
            yield
            before_commit = False
    except Error as error:
        if outermost:
            error.was_rolled_back = before_commit  # type: ignore[attr-defined] # for was_rolled_back()
        raise


def was_rolled_back(error: Error, *, otherwise: bool = False) -> bool:
    """Return whether the failed statement certainly changed nothing."""
    return bool(getattr(error, "was_rolled_back", otherwise))


def insert_unique(using: str, row: models.Model, *, what: str) -> bool:
    """Insert a row with a unique name; return False if the name is taken."""
    joined = connections[using].in_atomic_block

    def statement(unsure: bool) -> bool:
        if unsure and type(row)._base_manager.using(using).filter(pk=row.pk).exists():
            return True
        try:
            with transaction.atomic(using) if joined else nullcontext():
                row.save(using=using, force_insert=True)
        except IntegrityError as error:
            if is_duplicate(error):
                return False
            raise
        return True

    return write(using, statement, what=what, savepoint=False)


def _translate(error: Error, what: str, using: str) -> Exception | None:
    if isinstance(error, IntegrityError) and not is_duplicate(error):
        return SessionNotFoundError(f"{what}: the session, agent or owner does not exist")
    if isinstance(error, DataError):
        return PayloadError(f"{what}: the database rejected a value")
    if error.args[:1] == (_UNSTORABLE_CHARACTER,):
        return PayloadError(
            f"{what}: the database cannot store a character of the text; run manage.py check "
            f"--database {using}"
        )
    return None


# Error code of MariaDB and MySQL (whose message quotes the text): a column is not utf8mb4.
_UNSTORABLE_CHARACTER = 1366
