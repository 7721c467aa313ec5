"""What is said at start of a replica that would be read wrongly, or not at all."""

from __future__ import annotations

import pytest
from django.db import connections

from django_agent_sessions.checks import check_replica, check_settings


def found(check) -> list[str]:
    return [message.id for message in check(None)]


@pytest.fixture
def replica(settings, monkeypatch):
    monkeypatch.setitem(connections.settings, "replica", connections.settings["default"])
    settings.AGENT_SESSIONS = {"REPLICA_DATABASE": "replica"}


def test_a_replica_has_to_be_a_database(settings):
    settings.AGENT_SESSIONS = {"REPLICA_DATABASE": "nowhere"}
    assert found(check_settings) == ["agent_sessions.E002"]


def test_without_a_replica_nothing_is_asked_for():
    assert found(check_replica) == []


def test_somebody_has_to_remember_who_has_just_written(replica, settings):
    assert found(check_settings) == []
    assert found(check_replica) == ["agent_sessions.W006"]

    settings.MIDDLEWARE = ["django_agent_sessions.serving.middleware.reading_own_writes"]
    assert found(check_replica) == []


def test_a_replica_that_no_request_may_read_is_named(replica, replicated, settings, monkeypatch):
    monkeypatch.setitem(connections["default"].settings_dict, "ATOMIC_REQUESTS", True)
    assert found(check_replica) == ["agent_sessions.W007"]
