"""``make scale``: ten million messages in 200,000 sessions beside ten thousand in 200.

Two databases of PostgreSQL (PGHOST, PGPORT, PGUSER, PGPASSWORD) do the same work in turns, each in
a process of its own. A piece of work passes if its median in the large one is at most
1.2 times that in the small one. Then 10,000 sessions are deleted from the large one, and one
session of 100,000 messages, while somebody else writes. It takes 12 GB and some minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from typing import Any

from benchmarks.scale.growth import databases

SMALL, LARGE = 10_000, 10_000_000
ALLOWED = 1.2
ROUNDS, WARM = 41, 20
DELETED, LARGE_SESSION = 10_000, 100_000
QUIET = 20
"""Seconds of writing before a deletion, to compare with."""

# Not from `work`, which needs Django and a database.
WORK = (
    "append one",
    "append 100",
    "restore 50",
    "restore 1,000",
    "latest 20 of 1,000",
    "pop",
    "redact one message",
    "fork a session of 50",
    "delete a session of 50",
    "usage of one evening, 1,000 messages",
    "admin: session list",
    "admin: session list, in the middle",
    "admin: search by id",
    "admin: transcript",
    "REST: own sessions",
    "REST: own sessions, page 5",
    "REST: everybody's sessions",
    "REST: everybody's sessions, in the middle",
    "REST: search by id",
    "REST: messages",
)


class Process:
    """A process on the database of one size."""

    def __init__(self, messages: int, *, load: bool, partitions: int = 0) -> None:
        self.name = databases.name_of(messages) + ("_parted" if partitions else "")
        if load:
            databases.create(self.name)
        command = [sys.executable, "-m", "benchmarks.scale.growth.worker", str(messages)]
        self._process = subprocess.Popen(
            [*command, *(["load"] if load else []), *([str(partitions)] if partitions else [])],
            env={**os.environ, "SCALE_DATABASE": self.name},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, **asked: Any) -> Any:
        """Has it do something, and waits for the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return self.answer()

    def answer(self) -> Any:
        """Waits for its next line."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the process of {self.name} ended; see above")
        return json.loads(line)

    def close(self) -> None:
        """Ends it."""
        self._process.kill()
        self._process.wait()


def main() -> int:
    """Runs the measurement."""
    parser = argparse.ArgumentParser(prog="make scale", description=__doc__)
    parser.add_argument("--messages", type=int, default=LARGE, help="of the larger database")
    parser.add_argument("--keep", action="store_true", help="keep the larger database")
    parser.add_argument("--kept", action="store_true", help="use what --keep has left")
    parser.add_argument(
        "--partitions", type=int, default=0, help="beside the same with so many partitions"
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"of each work: {ROUNDS}")
    parser.add_argument("--only", default="", help="only work with this in its name")
    parser.add_argument("--no-deletion", action="store_true", help="measure no long deletion")
    arguments = parser.parse_args()
    sizes = (arguments.messages if arguments.partitions else SMALL, arguments.messages)
    processes: list[Process] = []
    try:
        for size in sizes:
            second = len(processes) == 1
            load = not (second and arguments.kept)
            partitions = arguments.partitions if second else 0
            processes.append(Process(size, load=load, partitions=partitions))
            # One after the other: the server has other work than to load two at once.
            processes[-1].answer()
        missed = _growth(processes, arguments)
        if not arguments.no_deletion:
            _deletion(processes[1])
        return int(missed)
    finally:
        for process in processes:
            process.close()
            if process is processes[0] or not (arguments.keep or arguments.kept):
                databases.drop(process.name)


def _growth(processes: list[Process], arguments: argparse.Namespace) -> bool:
    names = (f"{SMALL:,}", f"{arguments.messages:,}")
    if arguments.partitions:
        names = ("one table", f"{arguments.partitions} partitions")
    print(f"| work | {names[0]} | {names[1]} | ratio | at most {ALLOWED} |")
    print("|---|---:|---:|---:|---|")
    missed = False
    for name in WORK:
        if arguments.only not in name:
            continue
        rounds: list[list[float]] = [[], []]
        for number in range(WARM + arguments.rounds):
            # Each is first as often as last.
            for index in (0, 1) if number % 2 else (1, 0):
                seconds = processes[index].ask(work=name)
                if number >= WARM:
                    rounds[index].append(seconds)
        few, many = (statistics.median(times) for times in rounds)
        missed = missed or many > ALLOWED * few
        print(
            f"| {name} | {few * 1000:.2f} ms | {many * 1000:.2f} ms | {many / few:.2f} "
            f"| {'pass' if many <= ALLOWED * few else 'MISS'} |",
            flush=True,
        )
    return missed


def _deletion(process: Process) -> None:
    print("\n| deletion | seconds | transactions | longest | others' append, p95 before | during |")
    print("|---|---:|---:|---:|---:|---:|")
    deeds: dict[str, dict[str, int]] = {
        f"{DELETED:,} sessions of 50 messages": {"delete": DELETED},
        f"one session of {LARGE_SESSION:,} messages": {"large": LARGE_SESSION},
    }
    for name, deed in deeds.items():
        writer = _Writer(process.name)
        writer.start()
        time.sleep(QUIET)
        begun = time.monotonic()
        answer = process.ask(**deed)
        ended = time.monotonic()
        # What comes before is the making of what is deleted.
        begun = max(begun, ended - answer["seconds"])
        writer.stop()
        lasted = answer["transactions"]
        print(
            f"| {name} | {answer['seconds']:.1f} s | {len(lasted):,} | {max(lasted) * 1000:.0f} ms "
            f"| {writer.p95(until=begun) * 1000:.1f} ms "
            f"| {writer.p95(since=begun, until=ended) * 1000:.1f} ms |",
            flush=True,
        )


class _Writer(threading.Thread):
    """Somebody who appends to other sessions, a hundred times a second, by a process of its own."""

    def __init__(self, database: str) -> None:
        super().__init__(daemon=True)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.scale.growth.writer"],
            env={**os.environ, "SCALE_DATABASE": database},
            stdout=subprocess.PIPE,
            text=True,
        )
        self._times: list[tuple[float, float]] = []

    def run(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            at, seconds = map(float, line.split())
            self._times.append((at, seconds))

    def stop(self) -> None:
        """Ends it."""
        self._process.kill()
        self._process.wait()
        self.join()

    def p95(self, *, since: float = 0, until: float) -> float:
        """Tells how long 95 of 100 appends took at the most."""
        times = sorted(seconds for at, seconds in self._times if since <= at < until)
        return times[int(len(times) * 0.95)] if times else float("nan")


if __name__ == "__main__":
    sys.exit(main())
