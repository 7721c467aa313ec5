from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import django_agent_sessions

ROOT = Path(__file__).resolve().parent.parent


def test_the_package_and_its_metadata_tell_the_same_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert django_agent_sessions.__version__ == project["version"]
    assert version("django-agent-sessions") == project["version"]


@pytest.mark.process
def test_importing_the_package_imports_nothing_of_django():
    program = "import sys, django_agent_sessions; sys.exit('django' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
