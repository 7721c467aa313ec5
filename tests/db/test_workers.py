"""The pool of threads that does database work outside of a caller's own."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from django.db import connection

from django_agent_sessions.db import bridge, workers
from django_agent_sessions.db.connection_state import close_if_broken
from django_agent_sessions.db.futures import DatabaseFuture
from django_agent_sessions.db.workers import WorkerPool
from django_agent_sessions.exceptions import ConfigurationError
from django_agent_sessions.models import Session
from django_agent_sessions.store import SessionStore
from tests.processes import ROOT


def outcome(work: DatabaseFuture[Any]) -> Any:
    assert work.wait(10)
    return work.result()


def new_pool(limit: int = 8, patience: float = 0.05) -> WorkerPool:
    return WorkerPool(limit=lambda: limit, patience=patience)


@pytest.fixture
def pool():
    pool = new_pool()
    yield pool
    pool.close()


def test_quick_work_is_done_by_one_thread_in_order(pool):
    done: list[tuple[int, int]] = []
    futures = [pool.submit(lambda n=n: done.append((n, threading.get_ident()))) for n in range(50)]
    for future in futures:
        outcome(future)

    assert [n for n, _ in done] == list(range(50))
    assert len({thread for _, thread in done}) == 1


def test_another_thread_starts_only_when_work_is_stuck(pool):
    release = threading.Event()
    stuck = pool.submit(release.wait)
    behind = pool.submit(threading.get_ident)
    assert not behind.wait(0.1)

    pool.grow_if_waiting(behind)
    assert outcome(behind)
    release.set()
    assert outcome(stuck) is True


def test_there_are_never_more_threads_than_the_limit():
    pool = new_pool(limit=2)
    release = threading.Event()
    running: list[int] = []

    def wait() -> bool:
        running.append(threading.get_ident())
        return release.wait()

    futures = [pool.submit(wait) for _ in range(4)]
    for future in futures * 2:
        pool.grow_if_waiting(future)
    time.sleep(0.05)
    started = len(running)
    release.set()
    for future in futures:
        assert outcome(future) is True
    pool.close()

    assert started == 2
    assert len(set(running)) == 2


def test_without_patience_no_work_waits_for_another():
    pool = new_pool(patience=0)
    barrier = threading.Barrier(5, timeout=10)
    for future in [pool.submit(barrier.wait) for _ in range(5)]:
        outcome(future)
    pool.close()


def test_idle_threads_end_and_later_work_starts_one_again(pool, monkeypatch):
    monkeypatch.setattr(workers, "IDLE_SECONDS", 0.05)
    outcome(pool.submit(int))
    deadline = time.monotonic() + 10
    while pool._threads:
        assert time.monotonic() < deadline
        time.sleep(0.01)

    assert outcome(pool.submit(lambda: 7)) == 7


def test_what_work_raises_comes_to_its_caller_and_to_nobody_else(pool):
    broken = pool.submit(lambda: 1 // 0)
    fine = pool.submit(lambda: 7)

    with pytest.raises(ZeroDivisionError):
        outcome(broken)
    assert outcome(fine) == 7


async def test_work_that_is_awaited_gives_its_outcome(pool):
    release = threading.Event()
    slow = pool.submit(lambda: release.wait(10))
    broken = pool.submit(lambda: 1 // 0)
    asyncio.get_running_loop().call_later(0.05, release.set)

    assert await slow is True
    assert await slow is True  # It is there, and stays there.
    with pytest.raises(ZeroDivisionError):
        await broken


async def test_a_task_that_is_cancelled_learns_of_it_when_the_outcome_is_there(pool):
    release = threading.Event()
    done: list[str] = []

    def late() -> None:
        release.wait(10)
        done.append("done")

    async def work() -> None:
        await pool.submit(late)

    task = asyncio.create_task(work())
    for _ in range(3):
        await asyncio.sleep(0.02)
        task.cancel()
    await asyncio.sleep(0.02)
    assert not task.done()
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert done == ["done"]


async def test_a_timeout_around_work_ends_when_the_outcome_is_there(pool):
    started = time.monotonic()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.gather(_nap(pool)), 0.02)

    assert time.monotonic() - started >= 0.2


async def _nap(pool: WorkerPool) -> None:
    await pool.submit(lambda: time.sleep(0.2))


def test_work_whose_loop_is_gone_is_done_all_the_same(pool):
    release = threading.Event()
    done: list[str] = []
    loop = asyncio.new_event_loop()
    # It tells of the task that is left.
    loop.set_exception_handler(lambda loop, context: None)

    def late() -> None:
        release.wait(10)
        done.append("done")

    async def leave() -> None:
        task = asyncio.ensure_future(wait())
        await asyncio.sleep(0.02)
        left.append(task)

    async def wait() -> None:
        await pool.submit(late)

    left: list[Any] = []
    loop.run_until_complete(leave())
    loop.close()
    release.set()

    assert outcome(pool.submit(lambda: "next")) == "next"
    assert done == ["done"]
    left[0].get_coro().close()


def test_a_closed_pool_finishes_its_work_and_takes_no_more():
    pool = new_pool()
    futures = [pool.submit(partial(int, n)) for n in range(20)]
    pool.close()

    assert [future.result() for future in futures] == list(range(20))
    with pytest.raises(RuntimeError, match="shuts down"):
        pool.submit(int)


FORK = """
import os, threading
from django_agent_sessions.db.workers import WorkerPool
import django
from django.conf import settings
settings.configure()
pool = WorkerPool(limit=lambda: 2)
def outcome(work):
    assert work.wait(10)
    return work.result()
assert outcome(pool.submit(lambda: 1)) == 1
stuck = threading.Event()
pool.submit(stuck.wait)
parent = os.getpid()
pool.submit(lambda: print("queued", os.getpid() == parent, flush=True))
child = os.fork()
if not child:
    assert outcome(pool.submit(lambda: 2)) == 2
    pool.close()
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
stuck.set()
pool.close()
print("all is well")
"""


def run_alone(program: str, *arguments: os.PathLike[str]) -> subprocess.CompletedProcess[str]:
    """Runs a program in a process that may fork: this one has a test database open."""
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=ROOT,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.process
def test_a_fork_has_a_pool_of_its_own_and_none_of_the_parents_work():
    ended = run_alone(FORK)

    assert ended.stdout == "queued True\nall is well\n", ended.stderr


FORK_ON_SQLITE = """
import asyncio, os, sys, time
import django
from django.conf import settings
from django.core.management import call_command
settings.configure(
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django_agent_sessions"],
    DATABASES={"default": {
        "ENGINE": "django.db.backends.sqlite3", "NAME": sys.argv[1], "CONN_MAX_AGE": 60,
        "OPTIONS": {"transaction_mode": "IMMEDIATE", "init_command": "PRAGMA journal_mode=WAL"},
    }},
)
django.setup()
call_command("migrate", verbosity=0)
from django.db import connections
from django_agent_sessions.db.bridge import _own_pool
from django_agent_sessions.store import SessionStore
store = SessionStore()
agent = store.agents.open(store.open("talk"))
connections.close_all()
message = {"role": "user", "content": "hello"}
asyncio.run(store.aappend(agent, message))
ends, closed = os.pipe()
child = os.fork()
if not child:
    store.append(agent, message)
    os.read(ends, 1)
    for _ in range(20):
        store.append(agent, message)
    os._exit(7)
time.sleep(0.5)
_own_pool.close()
os.write(closed, b"x")
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
print(len(store.payloads(agent)))
"""


@pytest.mark.process
def test_a_fork_loses_nothing_on_sqlite_that_was_open_in_a_thread_of_ours(tmp_path):
    ended = run_alone(FORK_ON_SQLITE, tmp_path / "forked.sqlite3")

    assert ended.stdout == "22\n", ended.stderr


seen: list[str] = []


@contextmanager
def note_the_work(connection):
    seen.append(f"enter {connection.alias}")
    try:
        yield
    finally:
        seen.append("exit")


@pytest.mark.django_db(transaction=True)
def test_connection_setup_is_entered_around_each_piece_of_our_own_work(settings):
    settings.AGENT_SESSIONS = {"CONNECTION_SETUP": f"{__name__}.note_the_work"}
    seen.clear()
    connection.close()

    bridge.run_orm(lambda: seen.append(f"work {Session.objects.count()}"))
    with pytest.raises(ZeroDivisionError):
        bridge.run_orm(lambda: 1 // 0)

    assert seen == ["enter default", "work 0", "exit", "enter default", "exit"]


@pytest.mark.django_db(transaction=True)
def test_a_connection_of_the_callers_is_as_the_caller_left_it(settings):
    settings.AGENT_SESSIONS = {"CONNECTION_SETUP": f"{__name__}.note_the_work"}
    seen.clear()
    assert Session.objects.count() == 0

    assert bridge.run_orm(Session.objects.count) == 0
    assert seen == []


def without_its_decorator(connection):
    yield


NO_CALLABLE = "text"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no.such.thing", "'no.such.thing', which cannot be imported"),
        (f"{__name__}.missing", "missing', which cannot be imported"),
        ("nowhere", "'nowhere', which cannot be imported"),
        (".tenants", "'.tenants', which cannot be imported"),
        ("..tenants.as_tenant", "which cannot be imported"),
        (f"{__name__}.NO_CALLABLE", "NO_CALLABLE', which is not callable"),
        (f"{__name__}.without_its_decorator", "must return a context manager, not generator"),
    ],
)
async def test_a_setup_that_cannot_work_is_told_by_the_name_of_the_setting(settings, path, message):
    settings.AGENT_SESSIONS = {"CONNECTION_SETUP": path}

    with pytest.raises(ConfigurationError) as told:
        await SessionStore().aopen("session-1")

    assert "AGENT_SESSIONS['CONNECTION_SETUP'] " in str(told.value)
    assert message in str(told.value)
    settings.AGENT_SESSIONS = {}
    assert (await SessionStore().aopen("session-1")).session_id == "session-1"


@pytest.mark.skipif("PGDIRECTPORT" in os.environ, reason="a pooler dials again, unseen by us")
@pytest.mark.django_db(transaction=True)
def test_a_connection_that_the_server_ended_is_replaced():
    Session.objects.count()
    before = connection.connection
    if connection.vendor != "sqlite":
        other = connection.copy()
        with connection.cursor() as cursor:
            postgresql = connection.vendor == "postgresql"
            cursor.execute("SELECT pg_backend_pid()" if postgresql else "SELECT CONNECTION_ID()")
            (number,) = cursor.fetchone()
        with other.cursor() as cursor:
            kill = "SELECT pg_terminate_backend(%s, 5000)" if postgresql else "KILL %s"
            cursor.execute(kill, [number])
        other.close()
        time.sleep(0.1)
    close_if_broken(connection)

    assert Session.objects.count() == 0
    assert (connection.connection is before) == (connection.vendor == "sqlite")
