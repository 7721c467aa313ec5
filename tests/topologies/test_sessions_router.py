"""The router of this package: sessions in a database of their own, users in another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.db import router

from django_agent_sessions.checks import check_routers, check_sessions_left_behind
from django_agent_sessions.checks.databases import ROUTER_PATH
from django_agent_sessions.models import Session
from tests.processes import ROOT

from .test_apart import ELSEWHERE, arranged  # noqa: F401 - a fixture


@pytest.fixture
def ours(arranged, settings):  # noqa: F811 - a fixture - the fixture
    arranged(None, ELSEWHERE)
    settings.DATABASE_ROUTERS = [ROUTER_PATH]


def test_rows_of_the_app_go_to_its_database_and_users_where_they_are(ours):
    session, user = Session(), User()
    session._state.db, user._state.db = "agents", "default"

    assert router.db_for_read(Session) == router.db_for_write(Session) == "agents"
    assert router.db_for_read(Session, instance=user) == "agents"
    assert router.db_for_read(User, instance=session) == "default"
    assert router.db_for_write(User, instance=session) == "default"
    assert router.allow_relation(session, user) is True


def test_tables_are_made_where_their_rows_are(ours):
    assert router.allow_migrate_model("agents", Session)
    assert not router.allow_migrate_model("default", Session)
    assert router.allow_migrate_model("default", User)
    assert not router.allow_migrate_model("agents", User)
    assert not router.allow_migrate_model("agents", ContentType)


def test_the_tables_are_also_made_for_keys_and_by_another_alias(ours, settings):
    settings.AGENT_SESSIONS = {
        **ELSEWHERE,
        "LISTEN_DATABASE": "direct",
        "ENCRYPTION": {"KEY_DATABASE": "keys"},
    }

    assert router.allow_migrate_model("direct", Session)
    assert router.allow_migrate_model("keys", Session)


@pytest.mark.parametrize("sessions", [{}, {"DATABASE": "default"}])
def test_with_one_database_it_changes_nothing(settings, sessions):
    settings.AGENT_SESSIONS = sessions
    settings.DATABASE_ROUTERS = [ROUTER_PATH]

    assert router.db_for_read(Session) == router.db_for_write(User) == "default"
    assert router.allow_migrate_model("default", Session)
    assert router.allow_migrate_model("default", User)


@pytest.mark.parametrize("name", [None, "UsersOnlyHere", "RowsElsewhere", "Apart", "UsersToo"])
def test_a_check_warns_if_the_routers_name_another_database(arranged, name):  # noqa: F811 - a fixture
    arranged(name, ELSEWHERE)
    # All databases of this test have one place, which is no difference.
    assert check_routers(None) == []

    from django.db import connections

    connections.settings["agents"]["NAME"] = "another"
    found = check_routers(None)

    assert [problem.id for problem in found] == (["agent_sessions.W015"] if name is None else [])
    if found:
        assert ROUTER_PATH in str(found[0].hint)
        assert "'agents'" in found[0].msg


def test_it_does_not_warn_with_our_router_nor_without_the_setting(ours, settings):
    from django.db import connections

    connections.settings["agents"]["NAME"] = "another"
    assert check_routers(None) == []
    settings.AGENT_SESSIONS = {}
    assert check_routers(None) == []


@pytest.mark.django_db
def test_a_check_warns_if_sessions_were_left_in_the_database_of_before(ours, settings):
    from django.db import connections

    connections.settings["agents"]["NAME"] = "another"
    assert check_sessions_left_behind(None, databases=["default"]) == []
    Session.objects.using("default").create(session_id="left")

    [found] = check_sessions_left_behind(None, databases=["default", "agents"])
    assert found.id == "agent_sessions.W024"
    assert "agent_sessions zero" in str(found.hint)
    # Only if Django asks that database; and not of a project whose sessions are there.
    assert check_sessions_left_behind(None, databases=["agents"]) == []
    assert check_sessions_left_behind(None) == []
    settings.AGENT_SESSIONS = {}
    assert check_sessions_left_behind(None, databases=["default"]) == []


@pytest.mark.process
def test_everything_works_with_it():
    inherited = {key: value for key, value in os.environ.items() if key != "TEST_DATABASE_NAME"}
    ended = subprocess.run(
        [sys.executable, "-m", "tests.topologies.routed", ROUTER_PATH],
        cwd=ROOT,
        env={**inherited, "DJANGO_SETTINGS_MODULE": "tests.settings"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    known: dict[str, Any] = json.loads(ended.stdout)
    assert known == {
        "the ORM": ["s"],
        "the user's": ["s"],
        "the owner": "ada",
        "by name": "ada",
        "assigned": "bob",
        "API": 200,
        "admin": 200,
        "tables of users there": [],
        "tables of sessions here": [],
    }
