"""Celery and Django's tasks: workers that are killed while jobs run, and redelivery."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from benchmarks.servers import Server, ServerError, free_port, processes

from .driving import SDKS, Journal
from .servers import Worker

SESSIONS = 4
JOBS = 6
"""Jobs for each session, with a text of their own each."""
UNDONE = 2
KILLS = 3
_PATIENCE = 120
_QUIET = 15
"""Seconds without a finished job after which the unfinished ones are sent again."""


class Redis(Server):
    """The broker, whose content goes with it."""

    user = "redis"
    end = signal.SIGTERM

    def prepare(self) -> None:
        """It needs no file."""

    def command(self) -> list[str | Path]:
        program = shutil.which("redis-server")
        if program is None:
            raise ServerError("redis-server is not installed")
        return [program, "--port", str(self.port), "--bind", self.host, "--save", ""]

    def answers(self) -> bool:
        import redis

        try:
            return bool(redis.Redis(self.host, self.port).ping())
        except redis.RedisError:
            return False

    def create(self, name: str) -> None:
        raise NotImplementedError

    def django(self, name: str) -> dict[str, Any]:
        raise NotImplementedError


def _plan() -> Iterator[tuple[str, str]]:
    for job in range(JOBS):
        for session in range(SESSIONS):
            yield f"job-{session}", f"job-{session}-{job}"


def celery(pool: str) -> Callable[[Mapping[str, str], Path], Journal]:
    """Return a run of Celery with processes or threads."""

    def run(environment: Mapping[str, str], directory: Path) -> Journal:
        with Redis(directory / "redis", free_port()) as broker:
            url = f"redis://{broker.host}:{broker.port}/0"
            return _celery(pool, {**environment, "CONTEXTS_BROKER": url}, directory / "celery.log")

    return run


def _celery(pool: str, environment: Mapping[str, str], log: Path) -> Journal:
    from celery import Celery

    broker = environment["CONTEXTS_BROKER"]
    app = Celery("driver", broker=broker, backend=broker)
    command = (
        f"celery -A benchmarks.contexts.jobs worker --pool {pool} --concurrency 3 -l WARNING "
        "--without-gossip --without-mingle --without-heartbeat"
    )
    journal = Journal()
    calls: dict[str, tuple[str, list[str]]] = {
        **{text: ("answer", [session, text]) for session, text in _plan()},
        **{
            f"undo-{sdk}-{number}": ("undo", [sdk, "undo", f"undo-{sdk}-{number}"])
            for number in range(UNDONE)
            for sdk in SDKS
        },
    }
    jobs = {text: app.send_task(name, arguments) for text, (name, arguments) in calls.items()}
    chance = random.Random(7)
    until = time.monotonic() + _PATIENCE
    for life in range(2):
        with Worker(command, environment, log) as worker:
            kills, done, changed = 0, 0, time.monotonic()
            while time.monotonic() < until:
                left = [text for text, job in jobs.items() if not job.successful()]
                if not left:
                    break
                if len(jobs) - len(left) > done:
                    done, changed = len(jobs) - len(left), time.monotonic()
                elif time.monotonic() > changed + _QUIET:
                    # A worker that is killed may lose a task that it has just taken from Redis.
                    for text in left:
                        name, arguments = calls[text]
                        app.send_task(name, arguments, task_id=jobs[text].id)
                    changed = time.monotonic()
                time.sleep(chance.uniform(0.2, 0.6))
                children = worker.children()
                if not life and done and kills < KILLS and pool == "prefork" and children:
                    _kill_one(chance.choice(list(children)))
                    kills += 1
                elif not life and done > len(jobs) // 3:
                    processes.kill(worker.process)
                    break
    for text, job in jobs.items():
        kind = "undo" if calls[text][0] == "undo" else "job"
        journal.note(kind, text, job.successful(), f"{job.state} {job.result}")
    return journal


def _kill_one(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def django_tasks(environment: Mapping[str, str], directory: Path) -> Journal:
    """Run Django's tasks with two workers, one of which is killed; enqueue its job again."""
    from .jobs import django_answer, django_undo

    command = "django db_worker --interval 0.1 --no-startup-delay --no-reload"
    journal = Journal()
    ids = {text: str(uuid4()) for _, text in _plan()}
    jobs = {text: django_answer.enqueue(session, text, ids[text]) for session, text in _plan()}
    undone = {
        f"undo-{sdk}-{number}": django_undo.enqueue(sdk, "undo", f"undo-{sdk}-{number}")
        for number in range(UNDONE)
        for sdk in SDKS
    }
    until = time.monotonic() + _PATIENCE
    log = directory / "tasks.log"
    with _workers(command, environment, log) as workers:
        killed = False
        while time.monotonic() < until:
            time.sleep(0.3)
            states = {text: _state(job) for text, job in {**jobs, **undone}.items()}
            finished = sum(state == "SUCCESSFUL" for state in states.values())
            if not killed and finished > 3:
                processes.kill(workers[0].process)
                killed = True
            if killed and not any(state == "READY" for state in states.values()):
                left = {text for text in jobs if states[text] == "RUNNING"}
                if finished == len(states):
                    break
                # The worker that was killed does not end its job; the project delivers it again.
                for session, text in _plan():
                    if text in left and time.monotonic() > until - _PATIENCE + 10:
                        jobs[text] = django_answer.enqueue(session, text, ids[text])
                time.sleep(3)
    for text, job in {**jobs, **undone}.items():
        state = _state(job)
        journal.note("undo" if text in undone else "job", text, state == "SUCCESSFUL", state)
    return journal


def _state(job: Any) -> str:
    job.refresh()
    return str(getattr(job.status, "value", job.status))


@contextmanager
def _workers(command: str, environment: Mapping[str, str], log: Path) -> Iterator[list[Worker]]:
    with Worker(command, environment, log) as first, Worker(command, environment, log) as second:
        yield [first, second]


QUEUES = {
    "Celery, prefork, killed": celery("prefork"),
    "Celery, threads, killed": celery("threads"),
    "Django's tasks, killed": django_tasks,
}
