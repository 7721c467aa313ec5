"""What the search of the built site finds first, as its own scripts compute it under Node."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.node import running

from .site import Site

# The first test waits for the site.
pytestmark = [pytest.mark.node, pytest.mark.timeout(600)]


@pytest.fixture(autouse=True)
def _node() -> None:
    if reason := running.missing():
        if "REQUIRE_CLIENTS" in os.environ:
            pytest.fail(f"The search has to run here: {reason}.")
        pytest.skip(f"The search was not run: {reason}.")


def found(site: Site, query: str) -> list[str]:
    script = Path(__file__).with_name("search.mjs")
    done = subprocess.run(
        ["node", str(script), str(site.folder), query], check=True, capture_output=True, text=True
    )
    titles: list[str] = json.loads(done.stdout)
    return titles


def test_a_subject_is_found_first_in_its_guide(site) -> None:
    titles = found(site, "redact")

    assert titles[:3] == ["Redaction (how-to)", "Redaction (reference)", "Redaction (discussion)"]
    assert "agent_sessions.redact" in titles


@pytest.mark.parametrize("query", ["custom user model", "AUTH_USER_MODEL", "uuid user"])
def test_what_users_a_project_may_have_is_found(site, query: str) -> None:
    assert "Settings (reference)" in found(site, query)[:5]


@pytest.mark.parametrize("name", ["DjangoSessionManager", "BLOB_PREFIX", "agent_sessions_prune"])
def test_a_name_is_found_first_in_the_reference(site, name: str) -> None:
    assert found(site, name)[0].rpartition(".")[2] == name
