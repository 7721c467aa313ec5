"""Sessions in one database and users in another: what is said at start, and what works."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import SystemCheckError
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

    return arranged


def told() -> list[str]:
    about = {"agent_sessions.E002", "agent_sessions.E008", "agent_sessions.W002"}
    return [p.id for p in [*check_settings(None), *check_storage(None)] if p.id in about]


@pytest.mark.parametrize(
    ("router", "sessions", "missing"),
    [
        ("Apart", {}, ["'agents' has no table of users", "'default' has no table of sessions"]),
        ("Apart", ELSEWHERE, ["'agents' has no table of users", "'default' has no table of sess"]),
        ("UsersOnlyHere", {}, ["'agents' has no table of users"]),
        ("UsersOnlyHere", ELSEWHERE, ["'agents' has no table of users"]),
        ("SessionsOnlyElsewhere", {}, ["'default' has no table of sessions"]),
    ],
)
def test_tables_that_are_kept_apart_stop_manage_check(arranged, router, sessions, missing):
    arranged(router, sessions)

    assert told() == ["agent_sessions.E008"]
    with pytest.raises(SystemCheckError) as error:
        call_command("check")
    said = str(error.value)
    assert "The sessions are in 'agents' and the users in 'default'" in said
    for what in missing:
        assert what in said
    assert said.count("has no table of") == len(missing)
    assert "HINT: Keep both in one database" in said


@pytest.mark.parametrize(
    ("router", "sessions"),
    [("RowsElsewhere", {}), ("RowsElsewhere", ELSEWHERE), (None, ELSEWHERE), ("Unmanaged", {})],
)
def test_rows_that_are_kept_apart_are_a_warning(arranged, router, sessions):
    arranged(router, sessions)
    assert told() == ["agent_sessions.W002"]


@pytest.mark.parametrize(
    ("router", "sessions"),
    [
        (None, {}),
        (None, {"DATABASE": "default"}),
        ("UsersToo", {}),
        ("UsersToo", ELSEWHERE),
        ("ReadsElsewhere", {}),
        ("ReadsElsewhere", {"REPLICA_DATABASE": "agents"}),
        (None, {"REPLICA_DATABASE": "agents"}),
    ],
)
def test_sessions_beside_their_users_are_sound_whatever_other_databases_there_are(
    arranged, router, sessions
):
    arranged(router, sessions)
    assert told() == []


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
def test_with_rows_apart_sessions_without_owners_work_and_users_can_be_deleted():
    assert outcomes("RowsElsewhere", {}) == {
        "nobody's": "1",
        "somebody's": "SessionNotFoundError",
        "list": "200",
        "page": "200",
        "user": "0",
        "sessions": "1",
    }


@pytest.mark.process
def test_with_the_users_in_the_database_of_the_sessions_all_works():
    assert outcomes("UsersToo", {}) == {
        "nobody's": "1",
        "somebody's": "1",
        "list": "200",
        "page": "200",
        "user": "0",
        "sessions": "1",
    }


@pytest.mark.process
def test_without_a_table_of_sessions_beside_the_users_no_user_is_deleted():
    found = outcomes("SessionsOnlyElsewhere", {})
    assert found["nobody's"] == "1"
    assert found["user"] in {"OperationalError", "ProgrammingError"}
