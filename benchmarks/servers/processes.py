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

import psutil


def start(
    command: Sequence[str | Path], *, user: str, directory: Path, log: IO[bytes]
) -> subprocess.Popen[bytes]:
    """Start a server in a process group of its own, so that Ctrl-C reaches only us.

    Where we are root, the user runs it, because servers refuse to be root.
    """
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
    """Run a program to its end; raise RuntimeError with what it printed if it fails."""
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
    """Make a directory that belongs to a server's user, where we are root."""
    directory.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0:
        account = pwd.getpwnam(user)
        os.chown(directory, account.pw_uid, account.pw_gid)


def end_on_sigterm() -> None:
    """Let SIGTERM end this program as an error does, so that it takes its servers down."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a process and all its descendants by SIGKILL, and wait until they are gone.

    PostgreSQL's processes each lead a group of their own, so to kill the group is not enough: a
    busy one would go on without its postmaster, and commit.
    """
    # Stopped first, so that none starts another while the others are killed.
    process.send_signal(signal.SIGSTOP)
    found = tree(process.pid)
    send(found, signal.SIGKILL)
    process.wait()
    while any(map(_is_alive, found)):
        time.sleep(0.005)


def tree(pid: int) -> list[psutil.Process]:
    """Return a process with all that it started, and what these started."""
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def send(processes: Sequence[psutil.Process], number: int) -> None:
    """Send a signal to processes that may be gone."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def _is_alive(process: psutil.Process) -> bool:
    """Tell whether a process is more than what its parent has not yet waited for."""
    try:
        return process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False


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
