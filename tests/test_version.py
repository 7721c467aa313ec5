from __future__ import annotations

import importlib
import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import django_agent_sessions
from django_agent_sessions import apps
from django_agent_sessions.adapters import openai_agents, strands
from django_agent_sessions.exceptions import ConfigurationError
from maintenance import sdk_versions

ROOT = Path(__file__).resolve().parent.parent


def test_the_package_and_its_metadata_tell_the_same_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert django_agent_sessions.__version__ == project["version"]
    assert version("django-agent-sessions") == project["version"]


@pytest.mark.process
def test_importing_the_package_imports_nothing_of_django():
    program = "import sys, django_agent_sessions; sys.exit('django' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize(
    ("module", "distribution", "extra", "older"),
    [
        (strands, "strands-agents", "strands", "1.42.9"),
        (openai_agents, "openai-agents", "openai", "0.17.3"),
    ],
)
def test_an_older_sdk_than_the_metadata_allows_is_refused(
    monkeypatch, module, distribution, extra, older
):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    required = project["optional-dependencies"][extra][0]
    minimum = re.match(rf"{distribution}>=([\d.]+),<", required)
    assert minimum is not None

    monkeypatch.setattr("django_agent_sessions.values.dependencies.version", lambda name: older)
    with pytest.raises(ConfigurationError) as refusal:
        importlib.reload(module)
    assert str(refusal.value) == (
        f"{distribution} {older} is installed, and {minimum[1]} or newer is required. Install it "
        f'with: pip install --upgrade "django-agent-sessions[{extra}]"'
    )


def test_an_older_django_is_refused_when_the_app_is_loaded(monkeypatch):
    monkeypatch.setattr("django.VERSION", (5, 1, 9, "final", 0))
    monkeypatch.setattr("django.get_version", lambda: "5.1.9")
    with pytest.raises(ConfigurationError, match=r"requires Django 5\.2 or newer, and 5\.1\.9 is"):
        importlib.reload(apps)


def test_the_page_of_versions_names_the_releases_that_are_tried():
    page = (ROOT / "docs" / "reference" / "versions.md").read_text()
    locked = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {"strands-agents": "strands", "openai-agents": "openai"}
    for distribution, releases in sdk_versions.RELEASES.items():
        minors = [release.rpartition(".")[0] for release in releases]
        newest = next(package["version"] for package in locked if package["name"] == distribution)
        (required,) = project["optional-dependencies"][extras[distribution]]
        minimum, below = required.removeprefix(f"{distribution}>=").split(",<")
        assert minimum.startswith(minors[0])
        assert (
            f"| {distribution} | {minimum} or newer, below {below} "
            f"| the whole suite with {newest.rpartition('.')[0]}, "
            "the contract kit with the last patch release of each minor version "
            f"from {minors[0]} to {minors[-1]} |"
        ) in page
