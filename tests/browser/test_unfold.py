"""With django-unfold in place of the stock admin, which takes another list of apps."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import unmeasured

pytest.importorskip("unfold")

PAGES = Path(__file__).with_name("unfold_pages.py")


def test_every_page_opens_with_unfold():
    environment = {**unmeasured(), "DJANGO_SETTINGS_MODULE": "tests.browser.unfold_settings"}
    # A database of its own.
    environment.pop("TEST_DATABASE_NAME", None)
    command = [sys.executable, "-m", "pytest", "-q", str(PAGES)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=170)

    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-2000:]
    assert "1 passed" in ran.stdout
