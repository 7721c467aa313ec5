"""What must not be written anywhere in this repository."""

from __future__ import annotations

import subprocess

import pytest

from tests.processes import ROOT

pytestmark = pytest.mark.process

# Not written out, or this file would be found.
FORBIDDEN = "_".join(["DJANGO", "ALLOW", "ASYNC", "UNSAFE"])


def test_djangos_protection_of_event_loops_is_switched_off_nowhere():
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    names = [name for name in listed.stdout.decode().split("\0") if name]
    files = [path for name in names if (path := ROOT / name).is_file()]

    assert ROOT / "django_agent_sessions" / "db" / "bridge.py" in files
    assert [path for path in files if FORBIDDEN.encode() in path.read_bytes()] == []
