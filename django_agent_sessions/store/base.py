"""What the parts of the store share: whose it is, where it writes, and how a write is retried."""

from __future__ import annotations

import functools
import random
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, Concatenate, ParamSpec, TypeVar
from uuid import UUID

from django.db import DataError, Error, IntegrityError, connections, models, transaction

from django_agent_sessions import bridge, conf
from django_agent_sessions.blobs import MessageGoneError
from django_agent_sessions.exceptions import (
    AgentSessionsError,
    ConfigurationError,
    PayloadError,
    SessionConflictError,
    SessionNotFoundError,
)
from django_agent_sessions.ids import validate_namespace
from django_agent_sessions.models import Session
from django_agent_sessions.transient import is_conflict, is_duplicate, is_lost_connection

P = ParamSpec("P")
R = TypeVar("R")

_LONGEST_DELAY = 0.05
_LONGEST_WAIT = 5.0


class StorePart:
    """The bindings of a store."""

    def __init__(self, *, owner: Any = None, namespace: str = "", using: str | None = None) -> None:
        self._owner = owner
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
    def owner_id(self) -> Any:
        """Primary key of the owner; None reaches every session.

        It is found at each use, because a lazy ``request.user`` asks the database, which a
        constructor that runs in an event loop must not.

        Raises:
            ConfigurationError: The owner is an anonymous or unsaved user, who can own nothing.
        """
        if self._owner is None:
            return None
        key = getattr(self._owner, "pk", self._owner)
        if key is None:
            raise ConfigurationError(
                "the owner is an anonymous or unsaved user, who can own no sessions: require a "
                "login, or give no owner to reach the sessions of everybody"
            )
        return key

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
        for _ in range(conf.get_settings().WRITE_RETRIES):
            with suppress(MessageGoneError):
                return read_once(self, *args, **kwargs)
        return read_once(self, *args, **kwargs)

    def read_once(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(self, *args, **kwargs)
        except Error as error:
            connection = connections[self.using]
            if connection.in_atomic_block or not connection.autocommit:
                raise
            if not is_lost_connection(error):
                raise
            connection.close()
        return method(self, *args, **kwargs)

    return read


def write(
    using: str,
    statement: Callable[[bool], R | None],
    *,
    what: str,
    savepoint: bool = True,
) -> R:
    """Runs one write, and runs it again when what stood in its way passes by itself.

    Outside a transaction everything that passes is tried again: a position another writer took, a
    deadlock, a lost connection. In a caller's transaction only the first is; the others are the
    caller's to see, because its own earlier work is gone with them.

    Args:
        using: The alias of the database.
        statement: The write. It is told whether an earlier try's outcome is unknown, because the
            connection was lost, and must then look before it writes. It returns None when another
            writer was in its way.
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
    joined = connection.in_atomic_block
    unsure = False
    failure: Exception = SessionConflictError(
        f"{what}: other writers were faster each time; try again, or raise WRITE_RETRIES"
    )
    started = time.monotonic()
    for delay in _delays():
        guard: AbstractContextManager[Any] = (
            transaction.atomic(using) if joined and savepoint else nullcontext()
        )
        try:
            with guard:
                result = statement(unsure)
        except AgentSessionsError:
            raise
        except Error as error:
            translated = _translated(error, what)
            if translated is not None:
                # Raised below, outside this block: the database's own words (PostgreSQL prints
                # the row) must not even be the context of the error.
                failure = translated
                break
            if not is_duplicate(error):
                passes = is_conflict(error) or is_lost_connection(error)
                # Whoever has waited for a lock that long would wait as long again.
                if joined or not passes or time.monotonic() - started > _LONGEST_WAIT:
                    raise
                if is_lost_connection(error):
                    if unsure:
                        raise
                    unsure = True
                    connection.close()
        else:
            if result is not None:
                return result
        time.sleep(delay)
    raise failure


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


def _translated(error: Error, what: str) -> Exception | None:
    if isinstance(error, IntegrityError) and not is_duplicate(error):
        return SessionNotFoundError(
            f"{what}: the session, agent or owner that it belongs to does not exist"
        )
    if isinstance(error, DataError):
        return PayloadError(f"{what}: the database refused a value")
    return None


def _delays() -> Iterator[float]:
    longest = 0.001
    for _ in range(conf.get_settings().WRITE_RETRIES):
        # Jitter, so that writers who met once do not meet again.
        yield random.uniform(0, longest)  # noqa: S311 - not a secret
        longest = min(longest * 2, _LONGEST_DELAY)
