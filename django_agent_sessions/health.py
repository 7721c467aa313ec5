"""Whether this process can store and read sessions, for a health check of the deployment."""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NamedTuple

from django.core.files.storage import storages
from django.db import connections
from django.db.migrations.executor import MigrationExecutor

from django_agent_sessions import conf
from django_agent_sessions.db import bridge
from django_agent_sessions.db.loop_guard import sync_only
from django_agent_sessions.events import postgresql_listener
from django_agent_sessions.models import UsageCursor

_APP = "agent_sessions"

_SECONDS = 5.0
"""How long a check waits for the database or the storage."""

_running: dict[str, Future[str]] = {}
_starting = threading.Lock()
# A child has none of its parent's threads.
os.register_at_fork(after_in_child=_running.clear)


class HealthCheck(NamedTuple):
    """The outcome of one check.

    Attributes:
        name: ``database``, ``migrations``, ``storage``, ``listener`` or ``pool``.
        ok: Whether it passed.
        detail: Figures, or the class of an error; never content or the error's text.
        seconds: How long it took.
    """

    name: str
    ok: bool
    detail: str
    seconds: float


class HealthReport(NamedTuple):
    """The outcomes of all checks that apply."""

    checks: tuple[HealthCheck, ...]

    @property
    def ok(self) -> bool:
        """Whether all checks passed."""
        return all(check.ok for check in self.checks)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON."""
        return {"ok": self.ok, "checks": {check.name: check._asdict() for check in self.checks}}


@functools.partial(sync_only, twin="acheck")
def check(using: str | None = None, *, storage: bool = False) -> HealthReport:
    """Check the database, the migrations, the listener and the threads of this process.

    It raises no error of what it checks, and waits 5 seconds at most for a database that does not
    answer; it opens a connection for that.

    Args:
        using: The alias of the database; by default the configured one.
        storage: Whether to ask ``BLOB_STORAGE`` for a file too, if one is configured. A bucket then
            takes part in the health of the process.

    Returns:
        The report.
    """
    alias = bridge.database(using)
    run = functools.partial(_outcomes, alias, storage)
    return HealthReport((*bridge.run_sync(run, using=alias), *_of_process()))


async def acheck(using: str | None = None, *, storage: bool = False) -> HealthReport:
    """Async version of :func:`check`.

    Args:
        using: See :func:`check`.
        storage: See :func:`check`.

    Returns:
        The report.
    """
    alias = bridge.database(using)
    run = functools.partial(_outcomes, alias, storage)
    return HealthReport((*await bridge.run_async(run, using=alias), *_of_process()))


def _outcomes(using: str, storage: bool) -> list[HealthCheck]:
    checks = [_outcome("database", functools.partial(_check_database, using))]
    if checks[0].ok:
        checks.append(_outcome("migrations", functools.partial(_check_migrations, using)))
    if all(check.ok for check in checks):
        checks[0] = _outcome("database", functools.partial(_check_writing, using))
    if storage and (alias := conf.get_settings().BLOB_STORAGE) is not None:
        ask = functools.partial(_check_storage, alias)
        checks.append(_outcome("storage", functools.partial(_in_time, f"storage {alias}", ask)))
    return checks


def _of_process() -> list[HealthCheck]:
    receiving = postgresql_listener.is_receiving()
    usage = bridge.pool_usage()
    figures = f"{usage.threads} threads, {usage.idle} idle, {usage.waiting} calls waiting"
    checks = [HealthCheck("pool", True, figures, 0.0)]
    if receiving is not None:
        detail = "listening" if receiving else "not listening; streams poll more often"
        checks.append(HealthCheck("listener", receiving, detail, 0.0))
    return checks


def _outcome(name: str, run: Callable[[], str]) -> HealthCheck:
    started = time.monotonic()
    try:
        problem = run()
    except Exception as error:
        # Drivers and storages raise errors of many kinds, whose texts may contain hosts and names.
        problem = type(error).__name__
    return HealthCheck(name, not problem, problem, time.monotonic() - started)


def _in_time(name: str, run: Callable[[], str]) -> str:
    """Run a check in a thread; raise ``TimeoutError`` if it takes too long.

    A check that is still running is waited for, so that threads do not pile up.
    """
    with _starting:
        future = _running.get(name)
        if future is None or future.done():
            future = _running[name] = Future()
            fulfil = functools.partial(_fulfil, future, run)
            threading.Thread(target=fulfil, name="agent-sessions-health", daemon=True).start()
    return future.result(_SECONDS)


def _fulfil(future: Future[str], run: Callable[[], str]) -> None:
    try:
        future.set_result(run())
    except Exception as error:
        future.set_exception(error)


def _check_database(using: str) -> str:
    # By a connection of its own first: one of this thread may wait for ever.
    _in_time(f"database {using}", functools.partial(_connect, using))
    _select(using)
    return ""


def _connect(using: str) -> str:
    try:
        _select(using)
    finally:
        connections[using].close()
    return ""


def _select(using: str) -> None:
    with connections[using].cursor() as cursor:
        cursor.execute("SELECT 1")
        cursor.fetchone()


def _check_writing(using: str) -> str:
    """Change no row, which a database that is read-only refuses all the same."""
    UsageCursor.objects.using(using).filter(pk=0).update(counted_at=None)
    return ""


def _check_migrations(using: str) -> str:
    executor = MigrationExecutor(connections[using])
    leaves = [key for key in executor.loader.graph.leaf_nodes() if key[0] == _APP]
    missing = [migration.name for migration, _ in executor.migration_plan(leaves)]
    return f"not applied: {', '.join(missing)}" if missing else ""


def _check_storage(alias: str) -> str:
    storages[alias].exists(f"{conf.get_settings().BLOB_PREFIX}/health")
    return ""
