"""Writers on three nodes, of which one is killed, one cut off, one stopped, one begun anew.

    python -m benchmarks.topologies.galera --seconds 60

Then every node is asked for everything: nothing that was acknowledged may be missing, nothing be
there twice, positions are dense, and every session goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.chaos import marks
from benchmarks.chaos.checking import Found, Row, check
from benchmarks.chaos.history import Operation, read_journals
from benchmarks.servers import end_on_sigterm, scratch

from .cluster import NODES, Balancer, GaleraCluster, GaleraNode

NAME = "sessions"
_END = 60
# A node that was away for a moment may not have noticed yet.
_NOTICED = 2.0
# What a client sees of two nodes that met, if nobody tries again. By the proxy it sees nothing.
# 1205 is not among them: a read that waits for its node to catch up says that, too, when the node
# was stopped for longer than anybody tries.
_NEVER_SURFACES = ("1213", "1020", "1062", "SessionConflictError")

Stored = tuple[str, str, int, str, str]
"""A message as a node has it: its session, agent, position, key and payload."""


class Writers:
    """One writer of each kind on each node, and one of each that comes by the proxy."""

    def __init__(self, cluster: GaleraCluster, proxy: int, directory: Path, pause: float) -> None:
        self.directory = directory
        self._pause = pause
        self.processes: dict[str, subprocess.Popen[str]] = {}
        places = [(f"node{node.number}", database(node)) for node in cluster.nodes]
        places.append(("proxy", {**database(cluster.nodes[0]), "PORT": str(proxy)}))
        for place, entry in places:
            for kind in ("store", "strands", "openai"):
                self._start(kind, f"{kind}-{place}", entry)
        # All of them start at once, and wait for nothing when they are ready.
        for name, process in self.processes.items():
            assert process.stdout is not None
            if process.stdout.readline() != "ready\n":
                raise RuntimeError(f"{name} did not start: see {directory / name}.err")

    def name(self, operation: Operation) -> str:
        """Return the name of who did something."""
        return list(self.processes)[operation.writer]

    def _start(self, kind: str, name: str, entry: dict[str, Any]) -> None:
        arguments = [kind, str(len(self.processes)), str(self.directory), str(self._pause)]
        with (self.directory / f"{name}.err").open("w") as errors:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.topologies.galera.writer", *arguments],
                env=environment(entry),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def end(self) -> list[str]:
        """Lets all of them end."""
        for process in self.processes.values():
            assert process.stdin is not None
            process.stdin.close()
        bad = []
        for name, process in self.processes.items():
            try:
                status = process.wait(_END)
            except subprocess.TimeoutExpired:
                process.kill()
                status = process.wait()
            if status:
                bad.append(f"writer {name} ended with {status}")
        return bad

    def kill(self) -> None:
        """Kills those that still run."""
        for process in self.processes.values():
            process.kill()
            process.wait()

    def told(self) -> list[Operation]:
        """Read what they did and were told until now."""
        return read_journals(self.directory.glob("*.jsonl"))


def environment(entry: dict[str, Any]) -> dict[str, str]:
    """Return the environment of a process that works with a database."""
    return {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "benchmarks.chaos.settings",
        "CHAOS_DATABASE": json.dumps(entry),
        # No message here has a binary.
        "CHAOS_FILES": os.devnull,
        "CHAOS_MOOD": os.devnull,
        "EXAMPLE_WORD_DELAY": "0",
        "PYTHONWARNINGS": "ignore",
    }


def database(node: GaleraNode) -> dict[str, Any]:
    """Gives the entry of ``DATABASES`` that the documentation recommends."""
    entry = node.django(NAME)
    # Reads see what was committed on any node before; nobody waits for ever for an answer.
    entry["OPTIONS"] |= {"init_command": "SET SESSION wsrep_sync_wait = 1", "read_timeout": 20}
    return {**entry, "CONN_MAX_AGE": 60, "CONN_HEALTH_CHECKS": True}


def faults(cluster: GaleraCluster, part: float) -> list[tuple[str, Callable[[], object]]]:
    """Lists what happens, one after the other, with a part of the time after each."""
    first, second, third = cluster.nodes

    def begin_anew() -> None:
        third.kill()
        shutil.rmtree(third.data)
        # A new one that comes before the others miss the old one leaves them without a majority.
        time.sleep(_NOTICED)
        cluster.await_size(NODES - 1)
        third.start()

    return [
        ("kill -9 of node2", third.kill),
        ("node2 comes back", third.start),
        ("node1 is cut off", second.isolate),
        ("node1 is healed", second.heal),
        ("node0 is stopped", first.suspend),
        ("node0 goes on", first.resume),
        ("node2 is killed, emptied, and copied anew", begin_anew),
    ]


def stored_on(node: GaleraNode) -> list[Stored]:
    """Read everything that a node has, without the code that is tested."""
    rows = node.run(
        "SELECT s.session_id, a.agent_id, m.message_id, HEX(m.id), m.message"
        " FROM agent_sessions_sessionmessage m"
        " JOIN agent_sessions_session s ON s.id = m.session_id"
        " JOIN agent_sessions_sessionagent a ON a.id = m.agent_id",
        NAME,
    )
    return [(_text(s), _text(a), int(p), _text(k), _text(m)) for s, a, p, k, m in rows]


def differences(one: Sequence[Stored], other: Sequence[Stored]) -> list[str]:
    """Tell what two nodes, which are to have the same, have not both."""
    mine, theirs = set(one), set(other)
    found = []
    if missing := mine - theirs:
        found.append(f"{len(missing)} messages are not on the other node, or not the same there")
    if more := theirs - mine:
        found.append(f"{len(more)} messages are on the other node only, or not the same here")
    return found


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def run(directory: Path, seconds: float, pause: float) -> list[str]:
    """Runs it all and prints what happened."""
    started = time.monotonic()
    with GaleraCluster(directory / "cluster") as cluster, ExitStack() as ending:
        _say(started, f"{NODES} nodes are synced")
        cluster.nodes[0].create(NAME)
        manage(cluster.nodes[0], "migrate", "--verbosity=0")
        _say(started, "the tables are there")
        journals = directory / "journals"
        journals.mkdir()
        # Each of the nodes that something happens to is the preferred one at first.
        balancer = ending.enter_context(Balancer(cluster.nodes[::-1]))
        writers = Writers(cluster, balancer.port, journals, pause)
        ending.callback(writers.kill)
        _say(started, f"{len(writers.processes)} writers write")
        steps = faults(cluster, seconds)
        part = seconds / (len(steps) + 1)
        time.sleep(part)
        for what, step in steps:
            _say(started, f"{what} (acknowledged: {_acknowledged(writers.told())})")
            step()
            if step in (cluster.nodes[2].start, cluster.nodes[1].heal, cluster.nodes[0].resume):
                # Whoever loses two of three nodes at once has no majority left.
                time.sleep(_NOTICED)
                cluster.await_size(NODES)
            time.sleep(part)
        cluster.await_size(NODES)
        _say(started, "all nodes are back")
        time.sleep(part)
        _say(
            started, f"conflicts between nodes since they were last started: {_conflicts(cluster)}"
        )
        wrong = writers.end()
        told = writers.told()
        _say(started, f"{_acknowledged(told)} messages were acknowledged")
        _say(started, f"the proxy changed the node {balancer.failovers} times")
        wrong += _judge(cluster, writers, told)
        wrong += _go_on(cluster, started)
        _report(writers, told)
    return wrong


def _conflicts(cluster: GaleraCluster) -> dict[str, int]:
    """Counts what was refused at its certification, or ended for another node's write."""
    names = ("wsrep_local_cert_failures", "wsrep_local_bf_aborts")
    return {name: sum(int(node.status(name)) for node in cluster.nodes) for name in names}


def _acknowledged(told: Sequence[Operation]) -> int:
    return sum(len(operation.tokens) for operation in told if operation.acknowledged)


def _judge(cluster: GaleraCluster, writers: Writers, told: Sequence[Operation]) -> list[str]:
    found = [stored_on(node) for node in cluster.nodes]
    wrong = []
    for node, stored in zip(cluster.nodes, found, strict=True):
        rows = [Row(s, a, 0, p, False, tuple(marks.tokens_in(m))) for s, a, p, _, m in stored]
        wrong += [f"node{node.number}: {one.kind}: {one.what}" for one in check(told, Found(rows))]
        wrong += [
            f"node{node.number} beside node0: {problem}"
            for problem in differences(found[0], stored)
        ]
    print(f"messages on each node: {[len(stored) for stored in found]}")
    wrong += [
        f"{writer} saw {error}, {count} times"
        for (writer, error), count in _errors(writers, told).items()
        if any(part in error for part in _NEVER_SURFACES) or writer.endswith("-proxy")
    ]
    return wrong


def _errors(writers: Writers, told: Sequence[Operation]) -> Counter[tuple[str, str]]:
    failed = [operation for operation in told if operation.error is not None]
    return Counter((writers.name(operation), str(operation.error)) for operation in failed)


def _go_on(cluster: GaleraCluster, started: float) -> list[str]:
    wrong = []
    for node in cluster.nodes:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.topologies.galera.resume", f"again-{node.number}"],
            env=environment(database(node)),
            capture_output=True,
            text=True,
            check=False,
        )
        _say(started, f"node{node.number}: {done.stdout.strip()}")
        if done.returncode:
            wrong.append(f"node{node.number}: sessions do not go on: {done.stderr[-500:]}")
    return wrong


def manage(node: GaleraNode, *arguments: str) -> None:
    """Runs a command of Django's at a node."""
    subprocess.run(
        [sys.executable, "-m", "django", *arguments], env=environment(database(node)), check=True
    )


def _report(writers: Writers, told: Sequence[Operation]) -> None:
    times = sorted(one.ended - one.started for one in told if one.acknowledged)
    if times:
        at = [times[int(len(times) * share)] * 1000 for share in (0.5, 0.95, 0.99)]
        print("a call: median {:.1f} ms, 95 % {:.1f} ms, 99 % {:.1f} ms".format(*at), end="")
        print(f", longest {times[-1]:.1f} s, mean {statistics.fmean(times) * 1000:.1f} ms")
    by_writer = _errors(writers, told)
    by_error = Counter[str]()
    for (_, error), count in by_writer.items():
        by_error[error] += count
    print(f"surfaced after the retry time: {dict(by_error) or 'nothing'}")
    for (writer, error), count in sorted(by_writer.items()):
        print(f"  {writer}: {error} × {count}")


def _say(started: float, what: str) -> None:
    print(f"{time.monotonic() - started:6.1f} s  {what}", flush=True)


def main() -> int:
    """Runs it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.topologies.galera")
    parser.add_argument("--seconds", type=float, default=80, help="how long writers write")
    parser.add_argument("--pause", type=float, default=0.05, help="mean seconds between two turns")
    parser.add_argument("--keep", type=Path, help="copy the writers' journals there")
    given = parser.parse_args()
    end_on_sigterm()
    with scratch() as directory:
        wrong = run(directory, given.seconds, given.pause)
        if given.keep:
            shutil.copytree(directory / "journals", given.keep, dirs_exist_ok=True)
    for problem in wrong:
        print(f"WRONG: {problem}")
    print("nothing is wrong" if not wrong else f"{len(wrong)} things are wrong")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
