"""The statements of a lease: each is atomic by itself, and all times are the database's."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.db.models.sql.compiler import SQLCompiler

from django_agent_sessions.exceptions import ConfigurationError
from django_agent_sessions.ids import new_id
from django_agent_sessions.models import RunLease
from django_agent_sessions.store.base import write


class DatabaseNow(Now):
    """The database's clock, which nobody sets an hour back."""

    def as_mysql(
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **extra_context: Any
    ) -> Any:
        """Writes it for MariaDB and MySQL."""
        # CURRENT_TIMESTAMP is in the time zone of the connection, and leaps when summer ends.
        return self.as_sql(compiler, connection, template="UTC_TIMESTAMP(6)", **extra_context)


class Busy(NamedTuple):
    """Who holds a session."""

    holder: str
    age: timedelta


def take(using: str, session: UUID, token: UUID, *, holder: str, seconds: float) -> Busy | None:
    """Takes a lease if it is free: two statements, or one if it is not."""

    def statement(unsure: bool) -> Busy | None:
        found = _row(using, session).values_list(
            "token", "holder", "acquired_at", "expires_at", DatabaseNow()
        )
        row: tuple[UUID, str, datetime, datetime, datetime] | None = found.first()
        # What was read is a hint. It is the statement below that decides.
        if row is None:
            new = RunLease(session_id=session, token=token, holder=holder, **_times(seconds))
            # Another's may be there by now: then `write` looks again.
            new.save(using=using, force_insert=True)
            return None
        known, other, acquired, expires, now = row
        if known != token and expires > now:
            return Busy(other, now - acquired)
        free = _row(using, session).filter(Q(token=token) | Q(expires_at__lte=DatabaseNow()))
        if free.update(token=token, holder=holder, **_times(seconds)):
            return None
        return Busy("", timedelta())

    return write(using, statement, what=f"leasing session {session}")


def extend(using: str, session: UUID, token: UUID, *, seconds: float) -> bool:
    """Renews a lease."""
    expires_at = _times(seconds)["expires_at"]

    def statement(unsure: bool) -> int:
        return _row(using, session).filter(token=token).update(expires_at=expires_at)

    return bool(write(using, statement, what=f"renewing the lease of session {session}"))


def give_back(using: str, session: UUID, token: UUID) -> None:
    """Ends a lease; somebody else's stays."""

    def statement(unsure: bool) -> int:
        # Another token, so that a renewal that is under way finds nothing to renew.
        ended = {"token": new_id(), "expires_at": DatabaseNow()}
        return _row(using, session).filter(token=token).update(**ended)

    write(using, statement, what=f"releasing session {session}")


def refuse_transaction(using: str, session: UUID) -> bool:
    """Refuses to work in a caller's transaction."""
    connection = connections[using]
    connection.ensure_connection()
    if connection.in_atomic_block:
        try:
            # Django's own answer to whose transaction it is.
            with transaction.atomic(using, savepoint=False, durable=True):
                return True
        except RuntimeError:
            pass
    elif connection.autocommit:
        return False
    raise ConfigurationError(
        f"session {session} cannot be leased inside a transaction: others would see neither the "
        "lease nor what the run says before the commit. Begin the run outside of "
        "transaction.atomic(); under ATOMIC_REQUESTS, mark the view with "
        "transaction.non_atomic_requests"
    )


def _row(using: str, session: UUID) -> QuerySet[RunLease]:
    return RunLease._base_manager.using(using).filter(pk=session)


def _times(seconds: float) -> dict[str, Any]:
    return {
        "acquired_at": DatabaseNow(),
        "expires_at": DatabaseNow() + timedelta(seconds=seconds),
    }
