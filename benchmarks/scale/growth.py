"""``make scale``: ten million messages in 200,000 sessions beside ten thousand in 200.

Two databases of PostgreSQL (PGHOST, PGPORT, PGUSER, PGPASSWORD) do the same work in turns, each in
a process of its own. A piece of work passes if its median in the large one is at most
1.2 times that in the small one. Then 10,000 sessions are deleted from the large one, and one
session of 100,000 messages, while another process writes. It takes 12 GB and some minutes.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import threading
import time

from benchmarks.tables import table, verdict

from .process import Process

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


def main() -> int:
    """Run the measurement; return 0 if everything kept its bound."""
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
    given = parser.parse_args()
    processes: list[Process] = []
    try:
        for size in (given.messages if given.partitions else SMALL, given.messages):
            options = ["--load"]
            name = f"agent_sessions_scale_{size}"
            if processes:
                options = [] if given.kept else options
                if given.partitions:
                    options += ["--partitions", str(given.partitions)]
                    name += "_parted"
            processes.append(Process(name, size, *options))
            # One after the other: the server has other work than to load two at once.
            processes[-1].answer()
        missed = _growth(processes, given)
        if not given.no_deletion:
            _deletion(processes[1])
        return int(missed)
    finally:
        for process in processes:
            process.close(keep=process is not processes[0] and (given.keep or given.kept))


def _growth(processes: list[Process], given: argparse.Namespace) -> bool:
    names = [f"{SMALL:,}", f"{given.messages:,}"]
    if given.partitions:
        names = ["one table", f"{given.partitions} partitions"]
    rows = []
    for name in WORK:
        if given.only not in name:
            continue
        few, many = _medians(processes, name, given.rounds)
        times = [f"{few * 1000:.2f} ms", f"{many * 1000:.2f} ms", f"{many / few:.2f}"]
        rows.append([name, *times, verdict(many <= ALLOWED * few)])
        print(f"{name}: {rows[-1][-2]}", file=sys.stderr, flush=True)
    print(table(["work", *names, "ratio", f"at most {ALLOWED}"], rows, "lrrrl"))
    return any(row[-1] != verdict(True) for row in rows)


def _medians(processes: list[Process], name: str, count: int) -> list[float]:
    rounds: list[list[float]] = [[], []]
    for number in range(WARM + count):
        # Each is first as often as last.
        for index in (0, 1) if number % 2 else (1, 0):
            seconds = processes[index].ask(work=name)
            if number >= WARM:
                rounds[index].append(seconds)
    return [statistics.median(times) for times in rounds]


def _deletion(process: Process) -> None:
    head = ["deletion", "seconds", "transactions", "longest"]
    head += ["others' append, p95 before", "during"]
    deletions: dict[str, dict[str, int]] = {
        f"{DELETED:,} sessions of 50 messages": {"delete": DELETED},
        f"one session of {LARGE_SESSION:,} messages": {"large": LARGE_SESSION},
    }
    rows = []
    for name, asked in deletions.items():
        writer = Writer(process.name)
        writer.start()
        time.sleep(QUIET)
        begun = time.monotonic()
        answer = process.ask(**asked)
        ended = time.monotonic()
        # What comes before is the making of what is deleted.
        begun = max(begun, ended - answer["seconds"])
        writer.stop()
        lasted = answer["transactions"]
        figures = [f"{answer['seconds']:.1f} s", f"{len(lasted):,}", f"{max(lasted) * 1000:.0f} ms"]
        waits = writer.p95(until=begun), writer.p95(since=begun, until=ended)
        rows.append([name, *figures, *(f"{seconds * 1000:.1f} ms" for seconds in waits)])
    print("\n" + table(head, rows))


class Writer(threading.Thread):
    """Appends to other sessions, a hundred times a second, by a process of its own."""

    def __init__(self, database: str) -> None:
        super().__init__(daemon=True)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.scale.writer"],
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
        """End it."""
        self._process.kill()
        self._process.wait()
        self.join()

    def p95(self, *, since: float = 0, until: float) -> float:
        """Return how long 95 of 100 appends took at the most."""
        times = sorted(seconds for at, seconds in self._times if since <= at < until)
        return times[int(len(times) * 0.95)] if times else float("nan")


if __name__ == "__main__":
    sys.exit(main())
