"""The bridge where calls nest, end oddly, or find no thread."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connections, transaction

from django_agent_sessions.db import bridge, transaction_join
from django_agent_sessions.db.workers import WorkerPool

pytestmark = pytest.mark.django_db(transaction=True)


def test_work_that_asks_for_more_work_does_not_wait_for_itself(settings: Any) -> None:
    settings.AGENT_SESSIONS = {"MAX_CONNECTIONS": 1}

    def outer() -> int:
        return bridge.run_orm(User.objects.count)

    async def run() -> int:
        return await asyncio.wait_for(bridge.arun_orm(outer), 5)

    assert asyncio.run(run()) == 0


def test_work_that_stops_an_iteration_is_an_error_and_not_a_wait_for_ever() -> None:
    async def run() -> None:
        await asyncio.wait_for(bridge.arun_orm(lambda: next(iter([]))), 5)

    with pytest.raises(RuntimeError, match="StopIteration"):
        asyncio.run(run())


def test_work_that_no_thread_could_be_started_for_is_never_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = WorkerPool(limit=lambda: 1)
    done: list[str] = []

    def no_more_threads(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_more_threads)
        with pytest.raises(RuntimeError, match="new thread"):
            pool.submit(lambda: done.append("refused"))
    assert pool.submit(lambda: done.append("accepted")).wait(5)
    pool.close()

    assert done == ["accepted"]


def test_a_signal_does_not_let_borrowed_work_outlive_the_transaction() -> None:
    class SoftLimitError(Exception):
        pass

    def raise_soft_limit(*_: object) -> None:
        raise SoftLimitError

    def slow() -> None:
        time.sleep(0.5)
        User.objects.create(username="late")

    async def run() -> None:
        loop = asyncio.get_running_loop()
        timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1))
        timer.start()
        await bridge.arun_orm(slow)
        assert loop.is_running()

    before = signal.signal(signal.SIGUSR1, raise_soft_limit)
    try:
        with pytest.raises(SoftLimitError), transaction.atomic():
            asyncio.run(run())
    finally:
        signal.signal(signal.SIGUSR1, before)

    time.sleep(0.6)
    assert not User.objects.exists()
    assert connections["default"].allow_thread_sharing is False


def test_who_has_a_transaction_is_found_while_other_threads_open_connections() -> None:
    stop = threading.Event()

    def open_and_close() -> None:
        while not stop.is_set():
            for number in range(100):
                opened = connections["default"].copy(f"other-{number}")
                transaction_join.remember_thread_connection(opened)
                del opened

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread = threading.Thread(target=open_and_close)
    thread.start()
    try:
        deadline = time.monotonic() + 1
        while time.monotonic() < deadline:
            assert transaction_join.join_transaction("default") is None
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(interval)
