"""The faults: each by name, for a time, and written down with when it was."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from .clock import Clock
from .disk import Disk
from .grounds import Ground, ServerGround

Action = Callable[[float], str]
"""Takes how many seconds it is meant to last; returns what was done, in words."""


@dataclass(frozen=True)
class Fault:
    """A fault that was."""

    kind: str
    began: float
    ended: float
    what: str


@dataclass(frozen=True)
class Means:
    """What faults work with."""

    ground: Ground
    disk: Disk
    mood: Path
    clock: Clock | None


def actions(means: Means, chance: random.Random) -> dict[str, Action]:
    """Lists the faults that this database and this machine can have."""
    ground = means.ground
    found: dict[str, Action] = {
        "locks held": ground.hold_locks,
        "read-only": lambda seconds: _for(seconds, ground.read_only, "nobody may write"),
        "binaries slow": lambda seconds: _mood(means.mood, seconds, slow=0.3, failing=0),
        "binaries failing": lambda seconds: _mood(means.mood, seconds, slow=0.02, failing=0.5),
    }
    if means.disk.small:
        found["disk full"] = lambda seconds: _fill(means, seconds)
    if means.clock is not None:
        clock = means.clock
        found["clock step"] = lambda seconds: _step(clock, seconds, chance)
    if isinstance(ground, ServerGround):
        found |= {
            "server killed": lambda seconds: ground.restart_by_kill(seconds / 4),
            "server restarted": lambda seconds: ground.restart(seconds / 4),
            "backends killed": lambda seconds: _repeat(seconds, ground.kill_backends),
            "connections reset": lambda seconds: _repeat(
                seconds, lambda: f"{ground.proxy.reset()} connections"
            ),
            "network stalled": lambda seconds: _stall(ground, seconds),
            "answers lost": lambda seconds: _lose(ground, seconds),
            "deadlocks": lambda seconds: _repeat(seconds, ground.provoke_deadlock, pause=0.01),
        }
    return found


def missing(means: Means) -> Sequence[str]:
    """Says which faults cannot be had here, and why."""
    reasons: Mapping[str, bool] = {
        "disk full: no file system could be mounted": not means.disk.small,
        "clock steps: there is no C compiler": means.clock is None,
        "backends, server and network: there is no server": not isinstance(
            means.ground, ServerGround
        ),
    }
    return [reason for reason, holds in reasons.items() if holds]


def run(kind: str, action: Action, seconds: float) -> Fault:
    """Lets a fault be."""
    began = time.monotonic()
    try:
        what = action(seconds)
    except Exception as error:
        # The database that is broken may break what breaks it: a lock that it would hold.
        what = f"cut short by {type(error).__name__}: {str(error)[:80]}"
    return Fault(kind, began, time.monotonic(), what)


def _for(seconds: float, block: Callable[[], AbstractContextManager[object]], what: str) -> str:
    with block():
        time.sleep(seconds)
    return what


def _fill(means: Means, seconds: float) -> str:
    try:
        with means.disk.full():
            time.sleep(seconds)
    finally:
        means.ground.heal()
    return "not a byte left"


def _step(clock: Clock, seconds: float, chance: random.Random) -> str:
    step = chance.choice([-86_400, -3_600, -5, 5, 3_600, 86_400])
    clock.be_wrong_by(step)
    time.sleep(seconds)
    clock.be_wrong_by(0)
    return f"{step:+d} seconds"


@contextmanager
def _in_mood(mood: Path, slow: float, failing: float) -> Iterator[None]:
    mood.write_text(json.dumps({"seconds": slow, "failing": failing}))
    try:
        yield
    finally:
        mood.unlink()


def _mood(mood: Path, seconds: float, *, slow: float, failing: float) -> str:
    with _in_mood(mood, slow, failing):
        time.sleep(seconds)
    return f"up to {slow:g} s an access, {failing:.0%} of them fail"


def _repeat(seconds: float, once: Callable[[], str], pause: float = 0.5) -> str:
    deadline = time.monotonic() + seconds
    done = [once()]
    while time.monotonic() < deadline:
        time.sleep(pause)
        done.append(once())
    return f"{len(done)} times, last {done[-1]}"


def _stall(ground: ServerGround, seconds: float) -> str:
    ground.proxy.stall(seconds)
    time.sleep(seconds)
    return "nothing passes"


def _lose(ground: ServerGround, seconds: float) -> str:
    ground.proxy.lose_answers(0.03)
    time.sleep(seconds)
    ground.proxy.lose_answers(0)
    return "3% of the answers, each with its connection"
