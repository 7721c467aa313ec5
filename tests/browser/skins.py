"""The test project with another admin than the stock one, which takes another list of apps."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.processes import unmeasured

PAGES = Path(__file__).with_name("skin_pages.py")


def every_page_with(skin: str) -> None:
    """Runs the tests of all pages in a process with the settings of a skin."""
    environment = {**unmeasured(), "DJANGO_SETTINGS_MODULE": f"tests.browser.{skin}_settings"}
    # A database of its own.
    environment.pop("TEST_DATABASE_NAME", None)
    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", str(PAGES)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True)

    assert ran.returncode == 0, ran.stdout[-8000:] + ran.stderr[-2000:]
    assert "5 passed" in ran.stdout
