"""Run reads and writes, retry them after transient errors, and raise our errors for the others."""

from __future__ import annotations

import functools
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Concatenate, Literal, ParamSpec, Protocol, TypeVar

from django.db import DataError, Error, IntegrityError, connections, models, transaction

from django_agent_sessions import conf
from django_agent_sessions.db.connection_state import (
    close_quietly,
    in_caller_transaction,
    require_commits,
)
from django_agent_sessions.db.db_errors import (
    UNDER_HOLD,
    MessageGoneError,
    RetryError,
    is_conflict,
    is_duplicate,
    is_lost_connection,
    is_not_migrated,
    is_read_only,
)
from django_agent_sessions.exceptions import (
    AgentSessionsError,
    ConfigurationError,
    LegalHoldError,
    PayloadError,
    SessionConflictError,
    SessionNotFoundError,
)
from django_agent_sessions.values import observing

P = ParamSpec("P")
R = TypeVar("R")

_TABLES = "agent_sessions_"
"""How the names of the package's tables begin."""

_SHORTEST_WAIT, _LONGEST_CONFLICT_WAIT, _LONGEST_OUTAGE_WAIT = 0.001, 0.05, 1.0


class RetryPolicy:
    """Retry budget of one call.

    Conflicts with other writers are short, so they are counted (``WRITE_RETRIES``). Outages last
    longer, so they are timed (``RETRY_SECONDS``).
    """

    def __init__(self, started: float) -> None:
        settings = conf.get_settings()
        self._conflicts_left = settings.WRITE_RETRIES
        self._deadline = started + settings.RETRY_SECONDS
        self._next_wait = _SHORTEST_WAIT
        self._reconnected = False

    def after_conflict(self) -> bool:
        """Wait briefly after a conflict with another writer; return False when no retry is left."""
        self._conflicts_left -= 1
        return self._conflicts_left >= 0 and self._wait(_LONGEST_CONFLICT_WAIT, "conflict")

    def after_outage(self) -> bool:
        """Wait after an outage or a lock timeout; return False when the time is used up."""
        return time.monotonic() < self._deadline and self._wait(_LONGEST_OUTAGE_WAIT, "outage")

    def after_error(self, error: Error) -> bool:
        """Wait after an error that may pass; return False for others, or when the time is used up.

        A server that is read-only stays so, but a new connection may lead to its successor.
        """
        if is_read_only(error):
            reconnected, self._reconnected = self._reconnected, True
            return not reconnected
        return (is_conflict(error) or is_lost_connection(error)) and self.after_outage()

    def _wait(self, longest: float, reason: Literal["conflict", "outage"]) -> bool:
        if (observer := observing.current) is not None:
            observer.count_retry(reason)
        # Jitter, so that two conflicting writers do not retry at the same moment.
        time.sleep(random.uniform(0, min(self._next_wait, longest)))  # noqa: S311 - not a secret
        self._next_wait = min(self._next_wait * 2, _LONGEST_OUTAGE_WAIT)
        return True


class HasDatabase(Protocol):
    """An object that knows the alias of its database."""

    @property
    def using(self) -> str: ...


S = TypeVar("S", bound=HasDatabase | str)


def retry_reads(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Decorate a function that only reads so that it is retried after transient errors.

    Its first argument is the alias of the database, or an object with it.

    A connection can end at any moment, also right after it was checked. A message can be deleted
    after its row was read and before its large binaries are.
    """

    @functools.wraps(method)
    def read(database: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        using = database if isinstance(database, str) else database.using
        connection = connections[using]
        joined = in_caller_transaction(connection)
        retry = RetryPolicy(time.monotonic())
        while True:
            try:
                with connection.wrap_database_errors:
                    return method(database, *args, **kwargs)
            except MessageGoneError:
                if not retry.after_conflict():
                    raise
            except Error as error:
                if is_not_migrated(error, _TABLES):
                    raise _not_migrated(using) from error
                if joined or not retry.after_error(error):
                    raise
                if is_lost_connection(error):
                    close_quietly(connection)

    return read


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
    require_commits(using)
    connection = connections[using]
    joined = in_caller_transaction(connection)
    own_savepoint = savepoint and connection.in_atomic_block
    started, retry = time.monotonic(), None
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
            retry = retry or RetryPolicy(started)
            failure = translate(error, what, using)
            if failure is None and not is_duplicate(error):
                if joined or not retry.after_error(error):
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
        retry = retry or RetryPolicy(started)
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


def translate(error: Error, what: str, using: str) -> Exception | None:
    """Return our error for one of the database that no retry mends; None for others."""
    if is_not_migrated(error, _TABLES):
        return _not_migrated(using)
    if isinstance(error, IntegrityError) and not is_duplicate(error):
        if UNDER_HOLD in str(error):
            return LegalHoldError(f"{what}: {UNDER_HOLD}")
        return SessionNotFoundError(f"{what}: the session, agent or owner does not exist")
    if isinstance(error, DataError):
        return PayloadError(f"{what}: the database rejected a value")
    if error.args[:1] == (_UNSTORABLE_CHARACTER,):
        return PayloadError(
            f"{what}: the database cannot store a character of the text; run manage.py check "
            f"--database {using}"
        )
    return None


def _not_migrated(using: str) -> ConfigurationError:
    return ConfigurationError(
        f"database {using!r} does not have the current tables of django_agent_sessions: run "
        f"manage.py migrate --database {using}"
    )


# Error code of MariaDB and MySQL (whose message quotes the text): a column is not utf8mb4.
_UNSTORABLE_CHARACTER = 1366
