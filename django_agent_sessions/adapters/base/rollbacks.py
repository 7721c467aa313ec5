"""Find out that a caller's transaction was rolled back, to take back what was remembered in it."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Generic, TypeVar

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

S = TypeVar("S")


class _Checkpoint(Generic[S]):
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


class RollbackLog(Generic[S]):
    """What an object knew before the transactions that it is used in."""

    def __init__(self) -> None:
        self._checkpoints: list[_Checkpoint[S]] = []

    def track(self, using: str, known: Callable[[], S]) -> S | None:
        """Track the present transaction; return what was known before one that was rolled back."""
        connection = connections[using]
        if not (self._checkpoints or connection.in_atomic_block):
            return None
        undone: S | None = None
        for index, checkpoint in enumerate(self._checkpoints):
            if checkpoint.was_rolled_back():
                undone = checkpoint.known
                del self._checkpoints[index:]
                break
        self._checkpoints = [one for one in self._checkpoints if one.is_needed()]
        if connection.in_atomic_block and not any(
            checkpoint.is_of(connection) for checkpoint in self._checkpoints
        ):
            before = known() if undone is None else undone
            self._checkpoints.append(_Checkpoint(connection, before))
        return undone
