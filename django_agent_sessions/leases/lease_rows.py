"""The statements of a lease. Each is atomic, and all times are the database's."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.db.models.sql.compiler import SQLCompiler

from django_agent_sessions.db.connection_state import require_commits
from django_agent_sessions.db.retries import write
from django_agent_sessions.exceptions import ConfigurationError
from django_agent_sessions.models import RunLease
from django_agent_sessions.values.ids import new_id


class DatabaseNow(Now):
    """The database's clock in UTC, without daylight saving jumps."""

    def as_mysql(
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **extra_context: Any
    ) -> Any:
        # CURRENT_TIMESTAMP is in the connection's time zone, and jumps with daylight saving time.
        return self.as_sql(compiler, connection, template="UTC_TIMESTAMP(6)", **extra_context)


class LeaseHolder(NamedTuple):
    """The holder of a lease, and for how long it has held it."""

    holder: str
    age: timedelta


def acquire_row(
    using: str, session: UUID, token: UUID, *, holder: str, seconds: float
) -> LeaseHolder | None:
    """Acquire a lease if it is free; otherwise return its holder."""

    def statement(unsure: bool) -> LeaseHolder | None:
        values = _row(using, session).values_list(
            "token", "holder", "acquired_at", "expires_at", DatabaseNow()
        )
        row: tuple[UUID, str, datetime, datetime, datetime] | None = values.first()
        # This read is only a hint; the statements below decide.
        if row is None:
            new = RunLease(session_id=session, token=token, holder=holder, **_times(seconds))
            # If another process inserted a row meanwhile, `write` runs this again.
            new.save(using=using, force_insert=True)
            return None
        current_token, current_holder, acquired, expires, now = row
        if current_token != token and expires > now:
            return LeaseHolder(current_holder, now - acquired)
        available = _row(using, session).filter(Q(token=token) | Q(expires_at__lte=DatabaseNow()))
        if available.update(token=token, holder=holder, **_times(seconds)):
            return None
        return LeaseHolder("", timedelta())

    return write(using, statement, what=f"acquiring the lease of session {session}")


def renew_row(using: str, session: UUID, token: UUID, *, seconds: float) -> bool:
    """Renew a lease; return False if it has another token."""
    expires_at = _times(seconds)["expires_at"]

    def statement(unsure: bool) -> int:
        return _row(using, session).filter(token=token).update(expires_at=expires_at)

    return bool(write(using, statement, what=f"renewing the lease of session {session}"))


def release_row(using: str, session: UUID, token: UUID) -> None:
    """Release a lease, unless another process holds it."""

    def statement(unsure: bool) -> int:
        # With a new token, so that a concurrent renewal matches no row.
        ended = {"token": new_id(), "expires_at": DatabaseNow()}
        return _row(using, session).filter(token=token).update(**ended)

    write(using, statement, what=f"releasing the lease of session {session}")


def check_no_transaction(using: str, session: UUID) -> bool:
    """Raise if a caller's transaction is open.

    Return True if only the transaction of a Django test case is.
    """
    require_commits(using)
    connection = connections[using]
    connection.ensure_connection()
    if connection.in_atomic_block:
        try:
            # Django accepts a durable block only in the transaction of its own test cases.
            with transaction.atomic(using, savepoint=False, durable=True):
                return True
        except RuntimeError:
            pass
    elif connection.autocommit:
        return False
    raise ConfigurationError(
        f"the lease of session {session} cannot be acquired inside a transaction: other processes "
        "would not see it or the run's messages before the commit. Begin the run outside of "
        "transaction.atomic(); with ATOMIC_REQUESTS, decorate the view with "
        f"transaction.non_atomic_requests(using={using!r})"
    )


def _row(using: str, session: UUID) -> QuerySet[RunLease]:
    return RunLease._base_manager.using(using).filter(pk=session)


def _times(seconds: float) -> dict[str, Any]:
    return {
        "acquired_at": DatabaseNow(),
        "expires_at": DatabaseNow() + timedelta(seconds=seconds),
    }
