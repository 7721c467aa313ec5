"""What passes by itself: another writer, and database errors, told apart by the vendors' own codes.

The codes are those of PostgreSQL's appendix "Error Codes" and of MariaDB's list of error codes;
SQLite has only words.
"""

from __future__ import annotations

from django.db import Error, IntegrityError, InterfaceError, OperationalError, ProgrammingError

_CONFLICT_STATES = frozenset({"40001", "40P01", "55P03"})
_CONFLICT_NUMBERS = frozenset({1205, 1213, 1020})
_DUPLICATE_STATE = "23505"
_DUPLICATE_NUMBER = 1062
# Shut down by an administrator, crashed, starting up; idle for too long; too many connections; and
# what takes no writes, because another server does after a failover.
_LOST_STATES = frozenset({"57P01", "57P02", "57P03", "57P05", "25P03", "25P04", "53300", "25006"})
_LOST_CLASS = "08"
# Too many connections; a node of a cluster that is not ready; shutting down; broken on the way;
# failed at the commit; read-only; killed; idle for too long; and the client's own: refused, gone,
# lost.
_LOST_NUMBERS = frozenset(
    {1040, 1203, 1047, 1053, *range(1158, 1162), 1180, 1290, 1836, 1927, 4031}
    | {2002, 2003, 2006, 2012, 2013, 2055}
)
# mysqlclient lets one thread at a time use a connection, and the garbage collector, in any thread,
# frees a result by using it. Whoever meets that after a statement and before its answer was read
# leaves a connection on which nothing can be asked any more, until it is closed.
_OUT_OF_STEP_NUMBER = 2014
_IN_USE = "already in use from another thread"


class TryAgainError(Exception):
    """Another writer was in the way of a write, which is taken back and tried again.

    It is raised within what the store's ``write`` runs, and goes no further.
    """


def is_duplicate(error: Error) -> bool:
    """Tells whether a unique constraint refused a row."""
    if not isinstance(error, IntegrityError):
        return False
    state, number = _codes(error)
    return (
        state == _DUPLICATE_STATE
        or number == _DUPLICATE_NUMBER
        or "UNIQUE constraint failed" in str(error.__cause__)
    )


def is_conflict(error: Error) -> bool:
    """Tells whether two transactions met: a deadlock, a lock's timeout, a serialization failure.

    The statement had no effect and may be tried again, outside a transaction.
    """
    if not isinstance(error, OperationalError):
        return False
    state, number = _codes(error)
    return (
        state in _CONFLICT_STATES
        or number in _CONFLICT_NUMBERS
        or "database is locked" in str(error)
        or "database table is locked" in str(error)
    )


def is_lost_connection(error: Error) -> bool:
    """Tells whether the server went away, takes no connections, or is not to be had on this one.

    Over another connection it may be tried again. Whether it has happened is unknown.
    """
    if isinstance(error, InterfaceError):
        return True
    state, number = _codes(error)
    if state is not None:
        return state in _LOST_STATES or state.startswith(_LOST_CLASS)
    if isinstance(error, ProgrammingError):
        return number == _OUT_OF_STEP_NUMBER or _IN_USE in str(error)
    if not isinstance(error, OperationalError):
        return False
    if isinstance(number, int):
        return number in _LOST_NUMBERS
    # SQLite opens a file that cannot be written for reading, for as long as the connection lasts.
    # PostgreSQL's client names no state for what it did not hear from the server.
    return "readonly database" in str(error) or _is_of_client(error)


def is_uncertain(error: Error) -> bool:
    """Tells whether something failed so that it may have happened all the same."""
    if isinstance(error, OperationalError | InterfaceError):
        return not is_conflict(error)
    return is_lost_connection(error)


def _is_of_client(error: Error) -> bool:
    return type(error.__cause__).__module__.partition(".")[0] in ("psycopg", "psycopg2")


def _codes(error: Error) -> tuple[str | None, object]:
    cause = error.__cause__
    state = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)
    return state, error.args[0] if error.args else None
