"""Classify database errors by the vendors' error codes.

The codes are those of PostgreSQL's appendix "Error Codes" and of MariaDB's list of error codes;
SQLite's errors have texts only.
"""

from __future__ import annotations

from django.db import Error, IntegrityError, InterfaceError, OperationalError, ProgrammingError

from django_agent_sessions.exceptions import BlobNotFoundError

_CONFLICT_STATES = frozenset({"40001", "40P01", "55P03"})
_CONFLICT_NUMBERS = frozenset({1205, 1213, 1020})
_DUPLICATE_STATE = "23505"
_DUPLICATE_NUMBER = 1062
# Shut down by an administrator, crashed, starting up; idle for too long; too many connections;
# read-only after a failover.
_LOST_STATES = frozenset({"57P01", "57P02", "57P03", "57P05", "25P03", "25P04", "53300", "25006"})
_LOST_CLASS = "08"
# Too many connections; a cluster node that is not ready; shutting down; network errors; error
# during the commit; read-only; killed; idle for too long; and the client's own errors: refused,
# gone, lost.
_LOST_NUMBERS = frozenset(
    {1040, 1203, 1047, 1053, *range(1158, 1162), 1180, 1290, 1836, 1927, 4031}
    | {2002, 2003, 2006, 2012, 2013, 2055}
)
# mysqlclient lets one thread at a time use a connection, and the garbage collector, in any thread,
# uses it to free a result. If that happens between a statement and reading its result, the
# connection is out of step and unusable until it is closed.
_OUT_OF_STEP_NUMBER = 2014
_PRIVILEGE_STATE = "42501"
# On a database, for a user, on a table, on a column, for a global operation.
_PRIVILEGE_NUMBERS = frozenset({1044, 1045, 1142, 1143, 1227})
_IN_USE = "already in use from another thread"


# A table or a column does not exist.
_MISSING_STATES = frozenset({"42P01", "42703"})
_MISSING_TABLE_NUMBER, _MISSING_COLUMN_NUMBER = 1146, 1054
_MISSING_TEXTS = ("no such table", "no such column", "has no column named")


# Read-only after a failover, or always: another connection may lead to another server.
_READ_ONLY_STATE = "25006"
_READ_ONLY_NUMBERS = frozenset({1290, 1792, 1836})
_READ_ONLY_TEXT = "readonly database"


UNDER_HOLD = "a session is under legal hold; release it first"
"""The error of the triggers that refuse to change what a session under legal hold has."""


class RetryError(Exception):
    """Another writer conflicts with a write, which is rolled back and retried.

    Raised only within the function that ``retries.write`` runs, which catches it.
    """


class MessageGoneError(BlobNotFoundError):
    """Another process changed or deleted a message and its binaries after it was read."""


def is_duplicate(error: Error) -> bool:
    """Return whether a unique constraint was violated."""
    if not isinstance(error, IntegrityError):
        return False
    state, number = _codes(error)
    return (
        state == _DUPLICATE_STATE
        or number == _DUPLICATE_NUMBER
        or "UNIQUE constraint failed" in str(error.__cause__)
    )


def is_conflict(error: Error) -> bool:
    """Return whether two transactions conflict: deadlock, lock timeout or serialization failure.

    The statement had no effect and may be retried, outside of a transaction.
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
    """Return whether the server is unavailable or cannot be used over this connection.

    The statement may be retried over another connection. It may have been executed.
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
    # SQLite opens a file without write permission read-only, until the connection is closed.
    # PostgreSQL's client sets no state for its own errors.
    return _READ_ONLY_TEXT in str(error) or _is_of_client(error)


def is_read_only(error: Error) -> bool:
    """Return whether the server, or SQLite's file, accepts no writes over this connection.

    Also a lost connection: another one may lead to a server that does. Waiting does not help.
    """
    state, number = _codes(error)
    if state is not None:
        return state == _READ_ONLY_STATE
    return number in _READ_ONLY_NUMBERS or _READ_ONLY_TEXT in str(error)


def is_unavailable(error: Error) -> bool:
    """Return whether the database cannot answer now, and a later attempt may succeed."""
    if is_not_migrated(error, ""):
        return False
    return isinstance(error, OperationalError) or is_lost_connection(error)


def is_uncertain(error: Error) -> bool:
    """Return whether a failed statement or commit may have been executed all the same."""
    if isinstance(error, OperationalError | InterfaceError):
        return not is_conflict(error)
    return is_lost_connection(error)


def is_missing_privilege(error: Error) -> bool:
    """Return whether the database's user may not run the statement."""
    state, number = _codes(error)
    return state == _PRIVILEGE_STATE or number in _PRIVILEGE_NUMBERS


def error_number(error: Error) -> object:
    """Return the error number of MariaDB and MySQL."""
    return _codes(error)[1]


def is_not_migrated(error: Error, tables: str) -> bool:
    """Return whether a table, or a column of it, does not exist.

    Only tables whose names begin with ``tables`` count: a caller's own statements fail as they are.
    """
    if not isinstance(error, OperationalError | ProgrammingError):
        return False
    state, number = _codes(error)
    if number == _MISSING_COLUMN_NUMBER:
        # MariaDB and MySQL do not name the table of an INSERT.
        return True
    missing = (
        state in _MISSING_STATES
        or number == _MISSING_TABLE_NUMBER
        or any(text in str(error) for text in _MISSING_TEXTS)
    )
    return missing and tables in str(error)


def _is_of_client(error: Error) -> bool:
    return type(error.__cause__).__module__.partition(".")[0] in ("psycopg", "psycopg2")


def _codes(error: Error) -> tuple[str | None, object]:
    cause = error.__cause__
    state = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)
    return state, error.args[0] if error.args else None
