"""Starting other processes on the database of the running test."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def start(module: str, *arguments: object) -> subprocess.Popen[str]:
    """Starts ``python -m module``; it finds the test's database by ``TEST_DATABASE_NAME``."""
    return subprocess.Popen(
        [sys.executable, "-u", "-m", module, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ready(processes: Sequence[subprocess.Popen[str]]) -> None:
    """Waits until each process has printed ``ready``."""
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", process.communicate()[1]


def go(processes: Sequence[subprocess.Popen[str]]) -> None:
    """Lets processes that wait for a line go on, all at one moment."""
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()


def outputs(processes: Sequence[subprocess.Popen[str]]) -> list[list[str]]:
    """Waits for processes to end well.

    Returns:
        The lines each of them printed since ``ready``.
    """
    found = []
    for process in processes:
        out, err = process.communicate(timeout=150)
        assert process.returncode == 0, err
        found.append(out.splitlines())
    return found
