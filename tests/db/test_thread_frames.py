"""Other threads' stacks are read as they are, and nothing of them is kept."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from django_agent_sessions.db import thread_frames


@contextmanager
def another_thread(function: Callable[[threading.Event], object]) -> Iterator[int]:
    stop = threading.Event()
    thread = threading.Thread(target=function, args=(stop,))
    thread.start()
    assert thread.ident
    try:
        yield thread.ident
    finally:
        stop.set()
        thread.join()


@pytest.fixture
def often() -> Iterator[None]:
    """Threads take turns as often as they can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def test_where_a_thread_stands() -> None:
    inside = threading.Event()

    def outer(stop: threading.Event) -> None:
        inner("first", stop)

    def inner(name: str, stop: threading.Event) -> None:
        if name == "first":
            inner("second", stop)
        inside.set()
        stop.wait(10)
        later = name
        assert later

    with another_thread(outer) as thread:
        inside.wait(10)
        (stopped,) = thread_frames.local_variables(thread, outer.__code__, "stop")

        assert thread_frames.local_variables(thread, inner.__code__, "name") == ["second", "first"]
        assert thread_frames.local_variables(thread, inner.__code__, "name", "stop") == [
            ("second", stopped),
            ("first", stopped),
        ]
        assert thread_frames.local_variables(thread, inner.__code__, "later") == []
        assert thread_frames.local_variables(thread, nowhere.__code__, "name") == []


def nowhere() -> None:
    """No thread stands here."""


def test_a_thread_that_has_ended_stands_nowhere() -> None:
    with another_thread(lambda stop: stop.wait(10)) as thread:
        pass

    assert thread_frames.local_variables(thread, nowhere.__code__, "name") == []


class Mine:
    """Notes who finalizes it."""

    finalized_by: set[int] = set()

    def __del__(self) -> None:
        self.finalized_by.add(threading.get_ident())


@pytest.mark.usefixtures("often")
def test_what_a_thread_has_is_finalized_by_itself() -> None:
    looks = 0

    def work(stop: threading.Event) -> None:
        while not stop.is_set():
            use(Mine())

    def use(mine: Mine, deeper: int = 3) -> None:
        if deeper:
            use(Mine(), deeper - 1)

    with another_thread(work) as thread:
        while looks < 5_000:
            for deeper in thread_frames.local_variables(thread, use.__code__, "deeper"):
                assert deeper in range(4)
            looks += 1

    assert Mine.finalized_by == {thread}
