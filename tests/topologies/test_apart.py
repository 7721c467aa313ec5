"""Sessions in one database and users in another: what is said at start, and what works."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from typing import Any

import pytest
from django.db import connections

from django_agent_sessions.checks import check_settings, check_storage
from tests.processes import ROOT

ROUTERS = "tests.topologies.routers"
ELSEWHERE = {"DATABASE": "agents"}


@pytest.fixture
def arranged(settings, monkeypatch):
    """Gives the project a second database, a router, and settings."""
    agents = copy.deepcopy(connections.settings["default"])
    monkeypatch.setitem(connections.settings, "agents", agents)

    def arranged(router: str | None, sessions: dict[str, Any]) -> None:
        settings.DATABASE_ROUTERS = [f"{ROUTERS}.{router}"] if router else []
        settings.AGENT_SESSIONS = sessions

    yield arranged
    # Else a later test's connection of this alias would have the configuration of this test.
    if "agents" in {each.alias for each in connections.all(initialized_only=True)}:
        del connections["agents"]


@pytest.mark.parametrize("sessions", [{}, ELSEWHERE])
@pytest.mark.parametrize(
    "router",
    ["Apart", "UsersOnlyHere", "SessionsOnlyElsewhere", "RowsElsewhere", "Unmanaged", "UsersToo"],
)
def test_sessions_and_users_may_be_in_any_databases(arranged, router, sessions):
    arranged(router, sessions)
    about = {"agent_sessions.E002", "agent_sessions.E008", "agent_sessions.W002"}
    found = {problem.id for problem in [*check_settings(None), *check_storage(None)]}
    assert not found & about


def outcomes(router: str | None, sessions: dict[str, str]) -> dict[str, str]:
    """Runs the project on databases of its own."""
    inherited = {key: value for key, value in os.environ.items() if key != "TEST_DATABASE_NAME"}
    ended = subprocess.run(
        [sys.executable, "-m", "tests.topologies.two_databases", json.dumps([router, sessions])],
        cwd=ROOT,
        env={**inherited, "DJANGO_SETTINGS_MODULE": "tests.settings"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    known: dict[str, str] = json.loads(ended.stdout)
    return known


@pytest.mark.process
@pytest.mark.parametrize(
    ("router", "sessions"),
    [
        ("Apart", {}),
        ("RowsElsewhere", {}),
        ("SessionsOnlyElsewhere", {}),
        ("UsersToo", {}),
        (None, ELSEWHERE),
    ],
)
def test_sessions_have_owners_wherever_their_users_are(router, sessions):
    assert outcomes(router, sessions) == {
        "nobody's": "1",
        "somebody's": "1",
        "list": "200 with names",
        "page": "200",
        "export": "ada",
        "own": "1",
        "shared": "1",
        "confirmation": "200 with sessions",
        "held": "ProtectedError",
        "user": "0",
        "sessions": "1",
        "participants": "0",
    }
