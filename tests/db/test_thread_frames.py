"""Other threads' stacks are read as they are, and nothing of them is kept."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

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

        assert thread in thread_frames.thread_ids()
        assert thread_frames.waiting_threads(inner.__code__, "name") == {thread: "second"}
        assert thread_frames.waiting_threads(inner.__code__, "later") == {}
        assert thread_frames.waiting_threads(nowhere.__code__, "name") == {}
        assert thread_frames.local_variables(thread, inner.__code__, "name", "later") == [
            ("second", None),
            ("first", None),
        ]
        assert thread_frames.local_variables(thread, nowhere.__code__, "name") == []


def nowhere() -> None:
    """No thread stands here."""


def test_a_function_that_waits_is_among_the_innermost() -> None:
    """Whoever called it long ago does something else now."""
    deep = threading.Event()

    def start(stop: threading.Event) -> None:
        go_on(stop, 20)

    def go_on(stop: threading.Event, further: int) -> None:
        if further:
            go_on(stop, further - 1)
        else:
            deep.set()
            stop.wait(10)

    with another_thread(start) as thread:
        deep.wait(10)

        assert thread_frames.waiting_threads(start.__code__, "stop") == {}
        assert thread_frames.waiting_threads(go_on.__code__, "further") == {thread: 0}
        assert len(thread_frames.local_variables(thread, start.__code__, "stop")) == 1


def test_many_threads_wait_in_one_function() -> None:
    ready = threading.Barrier(71, timeout=10)

    def wait(stop: threading.Event, own: int) -> None:
        ready.wait()
        stop.wait(10)

    with ExitStack() as all_of_them:
        numbers = {
            all_of_them.enter_context(another_thread(partial(wait, own=number))): number
            for number in range(70)
        }
        ready.wait()

        assert thread_frames.waiting_threads(wait.__code__, "own") == numbers


def test_a_thread_that_has_ended_stands_nowhere() -> None:
    with another_thread(lambda stop: stop.wait(10)) as thread:
        pass

    assert thread not in thread_frames.thread_ids()
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
            assert thread_frames.thread_ids()
            assert set(thread_frames.waiting_threads(use.__code__, "deeper")) <= {thread}
            for (deeper,) in thread_frames.local_variables(thread, use.__code__, "deeper"):
                assert deeper in range(4)
            looks += 1

    assert Mine.finalized_by == {thread}
