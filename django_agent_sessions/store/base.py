"""What the parts of the store share: whose it is, where it writes, and how a write is retried."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Concatenate, ParamSpec, TypeVar
from uuid import UUID

from django.db import DataError, Error, IntegrityError, connections, models, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from django_agent_sessions import bridge
from django_agent_sessions.blobs import MessageGoneError
from django_agent_sessions.broken_connections import abandon, settle
from django_agent_sessions.exceptions import (
    AgentSessionsError,
    PayloadError,
    SessionConflictError,
    SessionNotFoundError,
)
from django_agent_sessions.ids import validate_namespace
from django_agent_sessions.models import Session
from django_agent_sessions.owners import EVERYBODY, NOBODY, owner_key, refuse_none
from django_agent_sessions.transient import (
    TryAgainError,
    is_conflict,
    is_duplicate,
    is_lost_connection,
)

from .patience import Patience

P = ParamSpec("P")
R = TypeVar("R")


class StorePart:
    """The bindings of a store."""

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
        """The space of session ids."""
        return self._namespace

    @property
    def reach(self) -> Any:
        """Whose sessions the store reaches: a user's primary key, ``NOBODY`` or ``EVERYBODY``.

        It is found at each use, because a lazy ``request.user`` asks the database, which a
        constructor that runs in an event loop must not.

        Raises:
            ConfigurationError: The owner is nobody who could own a session.
        """
        return owner_key(self._owner)

    @property
    def owner_id(self) -> Any:
        """Primary key of the owner of what the store creates; None for nobody.

        Raises:
            ConfigurationError: The owner is nobody who could own a session.
        """
        reach = self.reach
        return None if reach is NOBODY or reach is EVERYBODY else reach

    def _reaches(self, owner_id: Any) -> bool:
        """Tells whether what has this owner, or None, is reached."""
        reach = self.reach
        return reach is EVERYBODY or owner_id == (None if reach is NOBODY else reach)

    def _lock_session_first(self, session: UUID) -> None:
        """Takes the session's row in a caller's transaction, before a row that belongs to it.

        A redaction takes the session's first. A transaction that held another of its rows, and
        wanted the session's after that, would wait for the redaction, and it for the transaction.
        """
        connection = connections[self.using]
        if connection.in_atomic_block and connection.features.has_select_for_update:
            # Where there is the weaker lock, others may go on appending.
            weaker = connection.features.has_select_for_no_key_update
            rows = Session.objects.using(self.using).filter(pk=session)
            rows.select_for_update(no_key=weaker).values_list("pk").first()

    async def _arun(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await bridge.run_async(
            functools.partial(function, *args, **kwargs), using=self.using
        )


S = TypeVar("S", bound=StorePart)


def repeatable(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Makes a method of the store run again if something came in between: it changes nothing.

    A server that restarts, or an administrator, can end a connection at any moment, also right
    after it was found to be alive. And a message can be taken away after it was read and before
    its large binaries are.

    Args:
        method: It reads. In a caller's transaction it runs once, because what the transaction
            did before is gone with the connection.
    """

    @functools.wraps(method)
    def read(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        connection = connections[self.using]
        joined = is_joined(connection)
        patience = Patience()
        while True:
            try:
                with connection.wrap_database_errors:
                    return method(self, *args, **kwargs)
            except MessageGoneError:
                if not patience.after_meeting():
                    raise
            except Error as error:
                passes = is_conflict(error) or is_lost_connection(error)
                if joined or not (passes and patience.after_outage()):
                    raise
                if is_lost_connection(error):
                    abandon(connection)

    return read


def is_joined(connection: BaseDatabaseWrapper) -> bool:
    """Tells whether a caller's transaction is open, so that nothing may be tried again here.

    What the caller did before would be gone with the connection.

    Args:
        connection: The connection.
    """
    settle(connection)
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
    """Runs one write, and runs it again when what stood in its way passes by itself.

    Outside a transaction everything that passes is tried again: a position another writer took, a
    deadlock, a lost connection, a server that starts anew. In a caller's transaction only the
    first is; the others are the caller's to see, because its own earlier work is gone with them.

    Args:
        using: The alias of the database.
        statement: The write. It is told whether an earlier try's outcome is unknown, because the
            connection was lost, and must then look before it writes. It raises ``TryAgainError``
            when another writer was in its way. What it does in :func:`whole` leaves no doubt but
            at the commit.
        what: What is written, with ids and no content, for errors.
        savepoint: Whether, in a caller's transaction, the write needs a savepoint to fail alone.

    Returns:
        What the statement returned.

    Raises:
        SessionConflictError: Others were in the way each time.
        SessionNotFoundError: What the row refers to does not exist any more.
        PayloadError: The database refused a value.
    """
    connection = connections[using]
    joined = is_joined(connection)
    own_savepoint = savepoint and connection.in_atomic_block
    patience = Patience()
    unsure = False
    while True:
        connected = connection.connection is not None
        failure = None
        try:
            # Where closing a cursor fails too, Django lets the driver's own error through.
            with (
                connection.wrap_database_errors,
                transaction.atomic(using) if own_savepoint else nullcontext(),
            ):
                return statement(unsure)
        except AgentSessionsError:
            raise
        except TryAgainError:
            pass
        except Error as error:
            failure = _translated(error, what, using)
            if failure is None and not is_duplicate(error):
                passes = is_conflict(error) or is_lost_connection(error)
                if joined or not (passes and patience.after_outage()):
                    raise
                if is_lost_connection(error):
                    # What could not even connect has done nothing.
                    sent = connected or connection.connection is not None
                    unsure = unsure or not had_no_effect(error, otherwise=not sent)
                    abandon(connection)
                continue
        # Raised outside of the block above: the database's own words (PostgreSQL prints the row)
        # must not even be the context of the error.
        if failure is not None:
            raise failure
        if not patience.after_meeting():
            raise SessionConflictError(
                f"{what}: other writers were faster each time; try again, or raise WRITE_RETRIES"
            )


@contextmanager
def whole(using: str) -> Iterator[None]:
    """Opens a transaction, and lets :func:`write` know what fails in it before its commit.

    Nothing of that has happened, whatever became of the connection. It is
    ``transaction.atomic()`` otherwise.

    Args:
        using: The alias of the database.
    """
    connection = connections[using]
    outermost = not is_joined(connection)
    certain = True
    try:
        with connection.wrap_database_errors, transaction.atomic(using):
            yield
            certain = False
    except Error as error:
        if outermost:
            error.had_no_effect = certain  # type: ignore[attr-defined] # for had_no_effect()
        raise


def had_no_effect(error: Error, *, otherwise: bool = False) -> bool:
    """Tells whether what failed has certainly not happened.

    Args:
        error: What Django raised.
        otherwise: The answer where it was not in :func:`whole`.
    """
    return bool(getattr(error, "had_no_effect", otherwise))


def insert(using: str, row: models.Model, *, what: str) -> bool:
    """Inserts a row with a unique name.

    Args:
        using: The alias of the database.
        row: A row with its primary key, so that a repeated insert is the same row.
        what: What is written, with ids and no content, for errors.

    Returns:
        True; False if the name is taken.

    Raises:
        SessionNotFoundError: What the row refers to does not exist.
        PayloadError: The database refused a value.
    """
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


def _translated(error: Error, what: str, using: str) -> Exception | None:
    if isinstance(error, IntegrityError) and not is_duplicate(error):
        return SessionNotFoundError(
            f"{what}: the session, agent or owner that it belongs to does not exist"
        )
    if isinstance(error, DataError):
        return PayloadError(f"{what}: the database refused a value")
    if error.args[:1] == (_NO_SUCH_LETTER,):
        return PayloadError(
            f"{what}: the database has no such letter: see manage.py check --database {using}"
        )
    return None


# MariaDB and MySQL, which quote the text: a column is not in utf8mb4.
_NO_SUCH_LETTER = 1366
