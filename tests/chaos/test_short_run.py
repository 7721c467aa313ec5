"""A run of seconds: agents of both SDKs, whose processes are killed and whose file is locked."""

from __future__ import annotations

import subprocess
import sys

from tests.processes import ROOT, unmeasured


def test_nothing_is_lost_and_nothing_doubled_when_writers_are_killed():
    done = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks.chaos", "--database", "sqlite"),
            *("--minutes", "0.06", "--seed", "7", "--writers", "1"),
            *("--only", "writers killed", "--only", "locks held", "--only", "clock step"),
        ],
        cwd=ROOT,
        env=unmeasured(),
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "| writers killed |" in done.stdout
    assert "sqlite: PASSED" in done.stdout
