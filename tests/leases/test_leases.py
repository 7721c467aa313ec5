"""One run at a time: leases of sessions, with the database's clock."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection, connections, transaction
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from django_agent_sessions import leases
from django_agent_sessions.exceptions import (
    ConfigurationError,
    SessionBusyError,
    SessionNotFoundError,
)
from django_agent_sessions.leases import held_lease as holds
from django_agent_sessions.leases import lease_rows
from django_agent_sessions.leases.held_lease import HeldLease
from django_agent_sessions.leases.lease_rows import DatabaseNow
from django_agent_sessions.models import RunLease
from tests.threads import elsewhere

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def session(store):
    return store.open("leased").id


def is_free(session) -> bool:
    def attempt():
        leases.acquire(session, wait=0).release()

    return elsewhere(attempt) is None


def test_a_second_run_is_refused_while_the_first_one_holds_the_session(session):
    with leases.acquire(session):
        error = elsewhere(lambda: leases.acquire(session, wait=0))

        assert isinstance(error, SessionBusyError)
        assert str(session) in str(error)
        assert f":{os.getpid()} has held its lease" in str(error)
    assert is_free(session)


def test_another_session_is_not_concerned(session, store):
    with leases.acquire(session):
        assert is_free(store.open("other").id)


def test_a_second_run_begins_when_the_first_one_ends(session):
    first = leases.acquire(session)
    threading.Timer(0.2, first.release).start()

    lease = elsewhere(lambda: leases.acquire(session, wait=5))

    assert isinstance(lease, leases.Lease)
    assert first.released
    assert not lease.lost


def test_an_async_run_waits_without_blocking_the_loop(session):
    async def main():
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1

        ticking = asyncio.create_task(tick())
        started = time.monotonic()
        with pytest.raises(SessionBusyError, match="gave up after waiting"):
            await leases.aacquire(session, wait=0.3)
        ticking.cancel()
        return ticks, time.monotonic() - started

    held = elsewhere(lambda: leases.acquire(session))
    ticks, took = asyncio.run(main())

    assert ticks > 5
    assert 0.3 <= took < 2
    held.release()


def test_who_is_cancelled_while_waiting_leaves_nothing(session):
    async def main():
        waiting = asyncio.create_task(leases.aacquire(session))
        await asyncio.sleep(0.15)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    held = elsewhere(lambda: leases.acquire(session))
    asyncio.run(main())
    held.release()

    assert is_free(session)


def test_who_is_cancelled_at_the_very_moment_gives_it_back(session, monkeypatch):
    async def main():
        taking = asyncio.create_task(leases.aacquire(session))
        take = HeldLease.take

        def cancelled_meanwhile(hold):
            loop.call_soon_threadsafe(taking.cancel)
            time.sleep(0.05)
            return take(hold)

        loop = asyncio.get_running_loop()
        monkeypatch.setattr(HeldLease, "take", cancelled_meanwhile)
        with pytest.raises(asyncio.CancelledError):
            await taking

    asyncio.run(main())
    monkeypatch.undo()

    assert RunLease.objects.count() == 1
    assert is_free(session)


def test_a_signal_while_taking_it_gives_it_back(session, monkeypatch):
    take = HeldLease.take

    def interrupted(hold):
        take(hold)
        raise KeyboardInterrupt

    monkeypatch.setattr(HeldLease, "take", interrupted)
    with pytest.raises(KeyboardInterrupt):
        leases.acquire(session)
    monkeypatch.undo()

    assert is_free(session)


def test_taking_a_free_one_is_two_statements_waiting_one_and_releasing_one(session, store):
    session = store.get(session)

    def count(function):
        with CaptureQueriesContext(connection) as queries:
            found = function()
        return found, len(queries)

    # The first one makes the row, the others find it.
    for _ in range(2):
        lease, taking = count(lambda: leases.acquire(session, wait=0))
        _, releasing = count(lease.release)
        assert (taking, releasing) == (2, 1)
    held = elsewhere(lambda: leases.acquire(session))
    with pytest.raises(SessionBusyError), CaptureQueriesContext(connection) as queries:
        leases.acquire(session, wait=0)
    assert len(queries) == 1
    held.release()


def test_a_lease_is_renewed_while_it_is_held(session):
    with leases.acquire(session, seconds=0.6) as lease:
        time.sleep(1.5)

        assert not lease.lost
        lease.check()
        assert not is_free(session)
    assert is_free(session)


def test_a_renewal_that_comes_late_does_not_bring_a_released_lease_back(session):
    lease = leases.acquire(session, keep=False)
    row = RunLease.objects.get(session=session)
    lease.release()

    assert not lease_rows.renew_row("default", session, row.token, seconds=30)
    assert is_free(session)


def test_one_that_is_not_to_be_kept_expires(session):
    lease = leases.acquire(session, seconds=0.4, keep=False)
    assert not is_free(session)
    time.sleep(0.45)

    assert lease.lost
    assert is_free(session)
    with pytest.raises(SessionBusyError, match="lost the lease of"):
        lease.check()


def test_a_lease_that_nobody_refers_to_expires(session):
    leases.acquire(session, seconds=0.3)

    assert isinstance(elsewhere(lambda: leases.acquire(session, wait=3)), leases.Lease)


def test_who_comes_back_too_late_finds_the_lease_gone_and_leaves_the_new_one(session):
    late = leases.acquire(session, seconds=0.2, keep=False)
    time.sleep(0.3)
    new = elsewhere(lambda: leases.acquire(session))

    assert not asyncio.run(late.arenew())
    assert late.lost
    late.release()
    assert not new.lost
    assert not is_free(session)
    new.release()


def test_one_that_expired_unnoticed_goes_on_if_nobody_came(session):
    lease = leases.acquire(session, seconds=0.2, keep=False)
    time.sleep(0.3)
    assert lease.lost

    assert asyncio.run(lease.arenew())
    assert not lease.lost
    lease.release()
    assert not asyncio.run(lease.arenew())


def test_the_times_are_the_databases(session):
    with leases.acquire(session, seconds=20):
        row = RunLease.objects.annotate(now=DatabaseNow(), left=F("expires_at") - DatabaseNow())
        left = row.get().left
        assert timedelta(seconds=15) < left <= timedelta(seconds=20)


def test_within_a_run_the_lease_is_shared_until_both_have_ended(session):
    outer = leases.acquire(session)
    with leases.acquire(session, wait=0) as inner:
        assert not inner.lost
        inner.let_expire()
        inner.keep()
        outer.release()
        assert not is_free(session)
        with pytest.raises(SessionBusyError, match="was released"):
            outer.check()
    assert is_free(session)


def test_tools_are_within_their_run_and_other_tasks_are_not(session):
    async def main():
        async def other():
            with pytest.raises(SessionBusyError):
                await leases.aacquire(session, wait=0)

        async def run():
            async with await leases.aacquire(session):
                begun.set()
                # As a sync tool runs.
                lease = await asyncio.to_thread(leases.acquire, session, wait=0)
                await lease.arelease()
                await ended.wait()

        begun, ended = asyncio.Event(), asyncio.Event()
        running = asyncio.create_task(run())
        await begun.wait()
        await other()
        ended.set()
        await running

    asyncio.run(main())
    assert is_free(session)


def test_in_a_transaction_it_says_what_to_do(session):
    decorator = rf"non_atomic_requests\(using='{connection.alias}'\)"
    with transaction.atomic(), pytest.raises(ConfigurationError, match=decorator):
        leases.acquire(session)
    assert RunLease.objects.count() == 0


@pytest.mark.skipif(connection.vendor == "sqlite", reason="its autocommit is Python's")
def test_without_autocommit_it_says_what_to_do(session):
    transaction.set_autocommit(False)
    try:
        with pytest.raises(ConfigurationError, match="inside a transaction"):
            leases.acquire(session)
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)


@pytest.mark.django_db
def test_in_a_tests_own_transaction_it_works_and_never_expires(session):
    with leases.acquire(session, seconds=0.1) as lease:
        time.sleep(0.2)
        assert not lease.lost


def test_there_must_be_a_session():
    with pytest.raises(SessionNotFoundError):
        leases.acquire(uuid4())


def test_a_session_that_is_deleted_takes_its_lease_along(session, store):
    with leases.acquire(session, seconds=0.6) as lease:
        store.delete("leased")
        time.sleep(0.4)
        assert lease.lost
    assert RunLease.objects.count() == 0


@pytest.mark.parametrize("numbers", [{"wait": -1}, {"seconds": 0}, {"seconds": float("nan")}])
def test_numbers_that_make_no_sense_are_refused(session, numbers):
    with pytest.raises(ConfigurationError):
        leases.acquire(session, **numbers)


def test_the_settings_say_how_long(session, settings):
    settings.AGENT_SESSIONS = {"LEASE_SECONDS": 0.3, "LEASE_WAIT_SECONDS": 0.2}
    lease = leases.acquire(session, keep=False)
    started = time.monotonic()
    assert isinstance(elsewhere(lambda: leases.acquire(session)), SessionBusyError)
    assert time.monotonic() - started < 0.3
    time.sleep(0.2)
    assert lease.lost


@pytest.mark.process
def test_a_fork_does_not_hold_what_its_parent_holds(session):
    with leases.acquire(session) as lease:
        connections.close_all()
        child = os.fork()
        if not child:
            # No assertion of the child may reach the runner of the tests.
            fine = lease.lost
            lease.release()
            os._exit(0 if fine else 1)
        _, status = os.waitpid(child, 0)
        assert status == 0
        assert not lease.lost
        assert not is_free(session)


def test_who_has_just_had_its_turn_lets_others_go_first(session):
    leases.acquire(session).release()
    started = time.monotonic()
    leases.acquire(session).release()
    assert time.monotonic() - started >= 0.03


def test_a_database_that_fails_at_the_end_spoils_no_run(session, monkeypatch, caplog):
    lease = leases.acquire(session)
    monkeypatch.setattr(
        "django_agent_sessions.leases.lease_rows.write",
        lambda *a, **k: (_ for _ in ()).throw(_broken()),
    )
    lease.release()
    assert "it will expire" in caplog.text


def _broken():
    from django.db import OperationalError

    return OperationalError("gone")


def test_sessions_of_runs_that_never_wait_are_forgotten(store):
    for number in range(3):
        leases.acquire(store.open(f"leased-{number}").id, wait=0).release()
        time.sleep(0.1)

    assert len(holds._released_at) == 1
