"""Processes of a server: started as its own user, ended with all that they started."""

from __future__ import annotations

import contextlib
import os
import pwd
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any


def start(
    command: Sequence[str | Path], *, user: str, directory: Path, log: IO[bytes]
) -> subprocess.Popen[bytes]:
    """Starts a server in a process group of its own, so that Ctrl-C reaches only us."""
    return subprocess.Popen(
        [str(part) for part in command],
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        **_as(user),
    )


def run(command: Sequence[str | Path], *, user: str, directory: Path) -> None:
    """Runs a program to its end."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        **_as(user),
    )
    if done.returncode:
        printed = done.stdout.decode(errors="replace")
        raise RuntimeError(f"{command[0]} ended with {done.returncode}:\n{printed}")


def own(directory: Path, user: str) -> None:
    """Makes a directory that belongs to a server's user, where we are root."""
    directory.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0:
        account = pwd.getpwnam(user)
        os.chown(directory, account.pw_uid, account.pw_gid)


def end_on_sigterm() -> None:
    """Lets SIGTERM end this program as an error does, so that it takes its servers down."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))


def kill(process: subprocess.Popen[bytes]) -> None:
    """Ends a process and all its descendants by SIGKILL, and waits until they are gone.

    PostgreSQL's processes each lead a group of their own, so to kill the group is not enough: a
    busy one would go on without its postmaster, and commit.
    """
    # Stopped first, so that none starts another while the others are killed.
    send(process.pid, signal.SIGSTOP)
    pids = [process.pid, *descendants(process.pid)]
    for pid in pids:
        send(pid, signal.SIGKILL)
    process.wait()
    for pid in pids:
        while is_alive(pid):
            time.sleep(0.005)


def descendants(pid: int) -> list[int]:
    """Finds what a process started, and what these started."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (found := _parent(int(entry.name))) is not None:
            children.setdefault(found, []).append(int(entry.name))
    found_all: list[int] = []
    waiting = [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found_all += below
        waiting += below
    return found_all


def is_alive(pid: int) -> bool:
    """Tells whether a process is there and is more than what its parent has not yet waited for."""
    state = _stat(pid)
    return state is not None and state[0] not in "ZX"


def _parent(pid: int) -> int | None:
    state = _stat(pid)
    return None if state is None else int(state[1])


def _stat(pid: int) -> list[str] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name in parentheses may have anything in it.
    return text.rpartition(")")[2].split()


def send(pid: int, number: int) -> None:
    """Sends a signal to a process that may be gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _as(user: str) -> dict[str, Any]:
    if os.geteuid() != 0:
        return {}
    account = pwd.getpwnam(user)
    environment = {**os.environ, "HOME": account.pw_dir, "USER": user, "LOGNAME": user}
    return {
        "user": account.pw_uid,
        "group": account.pw_gid,
        "extra_groups": [],
        "env": environment,
    }
