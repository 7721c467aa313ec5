"""A run: writers that are killed, a database that is broken, and the verdict."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from benchmarks.servers import scratch

from . import checking, clock, disk, faults
from .desk import Assignment
from .faults import Fault, Means
from .grounds import Ground, ground_named
from .history import Operation, read_journals

_MODULES = ["benchmarks.chaos.preloaded"]


@dataclass(frozen=True)
class Plan:
    """What a run is to be."""

    database: str
    seconds: float
    seed: int
    writers: dict[str, int] = field(default_factory=lambda: {"store": 3, "openai": 2, "strands": 2})
    pause: float = 0.03
    kinds: tuple[str, ...] = ()
    longest: float = 3.0


@dataclass(frozen=True)
class Result:
    """What came of a run."""

    plan: Plan
    operations: list[Operation]
    faults: list[Fault]
    missing: list[str]
    violations: list[checking.Violation]
    found: checking.Found
    integrity: tuple[int, str]
    crashes: Counter[str]
    took: float

    @property
    def passed(self) -> bool:
        """Whether every promise was kept."""
        return not self.violations and not self.integrity[0] and not self.crashes


def run(plan: Plan) -> Result:
    """Runs it: makes the database, lets it be used and broken, and checks what is left."""
    began = time.monotonic()
    with scratch("agent-sessions-chaos-") as place, _disk(plan, place) as small:
        return _Run(plan, place, small).result(began)


def _disk(plan: Plan, place: Path) -> AbstractContextManager[disk.Disk]:
    # To fill it must not take long, and a server needs some room of its own.
    return disk.mounted(place / "disk", 512 if plan.database == "sqlite" else 1024)


class _Run:
    def __init__(self, plan: Plan, place: Path, small: disk.Disk) -> None:
        self._plan = plan
        self._small = small
        self._chance = random.Random(plan.seed)
        self._journals = place / "journals"
        self._journals.mkdir()
        self._binaries = small.path / "binaries"
        self._binaries.mkdir()
        self._clock = clock.made(place)
        self._ground: Ground = ground_named(plan.database, small.path, random.Random(plan.seed))
        self._means = Means(self._ground, small, place / "mood", self._clock)
        self._writers: dict[int, tuple[Assignment, BaseProcess]] = {}
        self._crashes: Counter[str] = Counter()
        self._faults: list[Fault] = []
        self._over = threading.Event()

    def result(self, began: float) -> Result:
        try:
            self._ground.start()
            with self._environment():
                self._context = multiprocessing.get_context("forkserver")
                self._context.set_forkserver_preload(_MODULES)
                self._in_child("migrate")
                self._let_them_work()
            operations = read_journals(self._journals.iterdir())
            found, integrity = self._in_child("judge")
            return Result(
                self._plan,
                operations,
                self._faults,
                list(faults.missing(self._means)),
                checking.check(operations, found),
                found,
                integrity,
                self._crashes,
                time.monotonic() - began,
            )
        finally:
            for _, process in self._writers.values():
                process.kill()
                process.join()
            self._ground.close()

    @contextmanager
    def _environment(self) -> Iterator[None]:
        """Tells all processes that are forked from now on where they are."""
        told = {
            "DJANGO_SETTINGS_MODULE": "benchmarks.chaos.settings",
            "CHAOS_DATABASE": json.dumps(self._ground.entry()),
            "CHAOS_FILES": str(self._binaries),
            "CHAOS_MOOD": str(self._means.mood),
            "EXAMPLE_WORD_DELAY": "0",
        }
        if self._clock is not None:
            told |= self._clock.environment()
        before = dict(os.environ)
        os.environ.update(told)
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)

    def _let_them_work(self) -> None:
        started = time.monotonic()
        number = 0
        for kind, count in self._plan.writers.items():
            for _ in range(count):
                number += 1
                self._start(
                    Assignment(
                        kind,
                        number,
                        0,
                        self._plan.seed,
                        self._journals,
                        started,
                        self._plan.pause,
                    )
                )
        breaking = threading.Thread(target=self._break_things)
        breaking.start()
        chance = random.Random(f"{self._plan.seed}/kills")
        killing = not self._plan.kinds or "writers killed" in self._plan.kinds
        try:
            while time.monotonic() - started < self._plan.seconds:
                time.sleep(chance.uniform(0.4, 2.5))
                self._replace_the_dead()
                if killing:
                    self._kill_one(chance)
        finally:
            self._over.set()
            breaking.join()
        self._ground.heal()
        # Some quiet, in which what was left undone is done.
        time.sleep(min(3, self._plan.seconds / 4))
        self._replace_the_dead()
        self._end_writers()

    def _break_things(self) -> None:
        chance = random.Random(f"{self._plan.seed}/faults")
        possible = faults.actions(self._means, chance)
        names = [name for name in possible if not self._plan.kinds or name in self._plan.kinds]
        waiting: list[str] = []
        while names and not self._over.wait(chance.uniform(0.3, 2.0)):
            if not waiting:
                # Each once before any comes again, so that a short run has them all.
                waiting = chance.sample(names, len(names))
            kind = waiting.pop()
            seconds = chance.uniform(0.2, self._plan.longest)
            self._faults.append(faults.run(kind, possible[kind], seconds))

    def _kill_one(self, chance: random.Random) -> None:
        number = chance.choice(sorted(self._writers))
        assignment, process = self._writers[number]
        at = time.monotonic()
        process.kill()
        process.join()
        self._faults.append(Fault("writers killed", at, time.monotonic(), assignment.kind))
        self._start_next(number)

    def _replace_the_dead(self) -> None:
        for number, (assignment, process) in list(self._writers.items()):
            if not process.is_alive():
                self._crashes[f"{assignment.kind} ended with {process.exitcode}"] += 1
                self._start_next(number)

    def _start_next(self, number: int) -> None:
        before, _ = self._writers[number]
        kept = {name: getattr(before, name) for name in before.__dataclass_fields__}
        self._start(Assignment(**{**kept, "incarnation": before.incarnation + 1}))

    def _start(self, assignment: Assignment) -> None:
        process = self._context.Process(
            target=_work, args=[assignment, self._ground.unprivileged], daemon=True
        )
        process.start()
        self._writers[assignment.number] = assignment, process

    def _end_writers(self) -> None:
        for _, process in self._writers.values():
            if process.pid is not None:
                os.kill(process.pid, signal.SIGTERM)
        for assignment, process in self._writers.values():
            process.join(30)
            if process.is_alive():
                self._crashes[f"{assignment.kind} did not end"] += 1
                process.kill()
                process.join()

    def _in_child(self, task: str) -> Any:
        """Does something in a fresh process, and brings back what came of it."""
        near, far = self._context.Pipe(duplex=False)
        child = self._context.Process(
            target=_task, args=[task, [self._binaries, *self._ground.files], far]
        )
        child.start()
        far.close()
        try:
            kind, value = near.recv()
        except EOFError:
            raise RuntimeError(f"{task} ended without a result") from None
        finally:
            child.join()
        if kind == "error":
            raise RuntimeError(f"{task}: {value}")
        return value


def _work(assignment: Assignment, unprivileged: bool) -> None:
    from . import writers

    writers.work(assignment, unprivileged)


def _task(task: str, files: list[Path], answer: Any) -> None:
    import traceback

    from . import preloaded

    try:
        answer.send(("done", preloaded.TASKS[task](files)))
    except Exception:
        answer.send(("error", traceback.format_exc()))
