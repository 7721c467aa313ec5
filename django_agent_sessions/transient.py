"""Which database errors pass by themselves, told apart by the vendors' own codes."""

from __future__ import annotations

from django.db import Error, IntegrityError, InterfaceError, OperationalError

_CONFLICT_STATES = frozenset({"40001", "40P01", "55P03"})
_CONFLICT_NUMBERS = frozenset({1205, 1213, 1020})
_DUPLICATE_STATE = "23505"
_DUPLICATE_NUMBER = 1062


def is_duplicate(error: Error) -> bool:
    """Tells whether a unique constraint refused a row.

    Args:
        error: What Django raised.
    """
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

    Args:
        error: What Django raised.
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
    """Tells whether the connection may have broken, so that the outcome is unknown.

    Args:
        error: What Django raised.
    """
    return isinstance(error, OperationalError | InterfaceError) and not is_conflict(error)


def _codes(error: Error) -> tuple[str | None, object]:
    cause = error.__cause__
    state = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)
    return state, error.args[0] if error.args else None
