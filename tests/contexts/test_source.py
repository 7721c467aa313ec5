"""What must not be written anywhere in this repository."""

from __future__ import annotations

import pytest

from tests.processes import ROOT, repository_files

pytestmark = pytest.mark.process

# Not written out, or this file would be found.
FORBIDDEN = "_".join(["DJANGO", "ALLOW", "ASYNC", "UNSAFE"])


def test_djangos_protection_of_event_loops_is_switched_off_nowhere():
    files = repository_files()

    assert ROOT / "django_agent_sessions" / "db" / "bridge.py" in files
    assert not [path for path in files if FORBIDDEN.encode() in path.read_bytes()]
