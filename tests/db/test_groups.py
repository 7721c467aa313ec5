"""Calls that wait together are taken by one thread; the others are not made to wait with them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from django_agent_sessions.db.futures import DatabaseFuture
from django_agent_sessions.db.groups import GroupedCall, run_together
from django_agent_sessions.db.workers import WorkerPool


class Writes:
    """What was written by groups, and which calls were carried out alone."""

    def __init__(self) -> None:
        self.groups: list[list[str]] = []
        self.alone: list[str] = []
        self.unsure: list[str] = []
        self.left_out: set[str] = set()
        self.error: Exception | None = None
        self.during: Callable[[], object] = int

    def call(self, name: str, key: str = "", using: str = "default") -> Call:
        return Call(self, name, key, using)


class Call(GroupedCall[str]):
    """A call that writes its name."""

    def __init__(self, writes: Writes, name: str, key: str, using: str) -> None:
        super().__init__(using, key or name)
        self.writes, self.name, self.is_written = writes, name, False

    def prepare(self) -> bool:
        if self.name == "unprepared":
            raise ValueError
        if self.name == "exits":
            raise SystemExit
        return True

    @classmethod
    def write_together(cls, using: str, calls: Sequence[Call]) -> list[bool]:
        writes = calls[0].writes
        writes.groups.append([call.name for call in calls])
        writes.during()
        if writes.error is not None:
            writes.unsure += [call.name for call in calls]
            raise writes.error
        for call in calls:
            call.is_written = call.name not in writes.left_out
        return [call.is_written for call in calls]

    def run(self) -> str:
        if not self.is_written:
            self.writes.alone.append(self.name)
            return f"{self.name} alone"
        if self.name == "unfinished":
            raise LookupError(self.name)
        return self.name.upper()


@pytest.fixture
def writes() -> Writes:
    return Writes()


@pytest.fixture
def pool():
    pool = WorkerPool(
        limit=lambda: 4, patience=0.05, together=lambda using, works: run_together(works)
    )
    yield pool
    pool.close()


def submit(pool: WorkerPool, call: Call) -> DatabaseFuture[str]:
    return pool.submit(call.run, call)


def outcome(work: DatabaseFuture[Any]) -> Any:
    assert work.wait(10)
    return work.result()


def held(pool: WorkerPool) -> threading.Event:
    """Keeps the only thread busy until the event is set."""
    started, release = threading.Event(), threading.Event()

    def hold() -> bool:
        started.set()
        return release.wait(10)

    pool.submit(hold)
    assert started.wait(10)
    return release


def test_calls_that_wait_together_are_written_together(pool, writes):
    release = held(pool)
    works = [submit(pool, writes.call(name)) for name in "abc"]
    release.set()

    assert [outcome(work) for work in works] == ["A", "B", "C"]
    assert writes.groups == [["a", "b", "c"]]
    assert writes.alone == []


def test_a_call_that_waits_alone_is_run_as_any_other(pool, writes):
    assert outcome(submit(pool, writes.call("a"))) == "a alone"
    assert writes.groups == []


def test_other_calls_keep_their_place_between_groups(pool, writes):
    release, seen = held(pool), []
    works = [submit(pool, writes.call(name)) for name in "ab"]
    works.append(pool.submit(lambda: seen.append(len(writes.groups))))
    works += [submit(pool, writes.call(name)) for name in "cd"]
    release.set()

    assert [outcome(work) for work in works] == ["A", "B", None, "C", "D"]
    assert writes.groups == [["a", "b"], ["c", "d"]]
    assert seen == [1]


def test_calls_with_the_same_key_or_of_two_databases_are_in_no_group(pool, writes):
    release = held(pool)
    works = [submit(pool, writes.call(name, key="k")) for name in "ab"]
    works += [submit(pool, writes.call(name, using=name)) for name in "cd"]
    release.set()

    assert [outcome(work) for work in works] == [f"{name} alone" for name in "abcd"]
    assert writes.groups == []


def test_what_a_group_leaves_out_runs_alone_and_the_others_are_told_before(pool, writes):
    release = held(pool)
    writes.left_out = {"b"}
    calls = [writes.call(name) for name in ("a", "b", "unprepared", "c")]
    works: list[DatabaseFuture[str]] = []
    calls[1].run = lambda: f"told {works[3].wait(10)}"
    works += [submit(pool, call) for call in calls]
    release.set()

    assert [outcome(work) for work in works] == ["A", "told True", "unprepared alone", "C"]


def test_if_a_group_fails_each_runs_alone(pool, writes):
    release = held(pool)
    writes.error = OSError("the answer was lost")
    works = [submit(pool, writes.call(name)) for name in "abc"]
    release.set()

    assert [outcome(work) for work in works] == ["a alone", "b alone", "c alone"]
    assert writes.unsure == ["a", "b", "c"]


def test_an_error_after_the_commit_is_raised_to_its_caller_only(pool, writes):
    release = held(pool)
    works = [submit(pool, writes.call(name)) for name in ("a", "unfinished", "b")]
    release.set()

    assert outcome(works[0]) == "A"
    with pytest.raises(LookupError, match="unfinished"):
        outcome(works[1])
    assert outcome(works[2]) == "B"
    assert writes.alone == []


def test_a_call_that_would_end_the_thread_leaves_no_other_waiting(pool, writes):
    release = held(pool)
    works = [submit(pool, writes.call(name)) for name in ("a", "exits", "b")]
    release.set()

    assert [outcome(work) for work in works] == ["A", "exits alone", "B"]


def test_a_group_that_fails_is_logged_without_what_was_to_be_written(pool, writes, caplog):
    release = held(pool)
    writes.error = OSError("Key (text)=(a secret) already exists")
    with caplog.at_level("INFO", "django_agent_sessions"):
        works = [submit(pool, writes.call(name)) for name in "ab"]
        release.set()
        assert [outcome(work) for work in works] == ["a alone", "b alone"]

    assert "2 calls could not be committed together (OSError)" in caplog.text
    assert "secret" not in caplog.text


def test_a_thread_that_seems_blocked_keeps_no_call_waiting(pool, writes):
    release, blocked = held(pool), threading.Event()
    writes.during = lambda: blocked.wait(10)
    works = [submit(pool, writes.call(name)) for name in "ab"]
    release.set()
    while not writes.groups:
        works[0].wait(0.01)
    later = submit(pool, writes.call("c"))
    # The group has only begun.
    assert pool.grow_if_waiting(later) is True
    assert not later.wait(0.1)

    assert pool.grow_if_waiting(later) is False
    assert outcome(later) == "c alone"
    blocked.set()
    assert [outcome(work) for work in works] == ["A", "B"]


def test_calls_are_not_scattered_over_idle_threads(pool, writes):
    release = threading.Event()
    works: list[DatabaseFuture[Any]] = [pool.submit(release.wait) for _ in range(3)]
    for work in works:
        pool.grow_if_waiting(work)
    release.set()
    for work in works:
        outcome(work)
    while len(pool._idle) < 3:
        works[0].wait(0.01)
    entered, gate = threading.Event(), threading.Event()

    def hold(*arguments: Any) -> None:
        entered.set()
        gate.wait(10)

    first = writes.call("first")
    held_work = pool.submit(hold, first)
    assert entered.wait(10)
    works = [submit(pool, writes.call(name)) for name in "abc"]
    gate.set()
    outcome(held_work)

    assert [outcome(work) for work in works] == ["A", "B", "C"]
    assert writes.groups == [["a", "b", "c"]]
