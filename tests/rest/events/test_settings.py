"""The settings of streams: what is wrong is said at start."""

from __future__ import annotations

import pytest
from django.test import override_settings

from django_agent_sessions import conf
from django_agent_sessions.checks import check_settings


@pytest.mark.parametrize("seconds", [0, -1, 0.0, float("nan"), float("inf"), "1", True])
def test_looks_are_a_time_apart(seconds):
    assert conf.problems({"EVENTS_POLL_SECONDS": seconds})


@pytest.mark.parametrize("seconds", [1, 0.5])
def test_a_fraction_of_a_second_is_a_time(seconds):
    assert conf.problems({"EVENTS_POLL_SECONDS": seconds}) == []


@override_settings(AGENT_SESSIONS={"LISTEN_DATABASE": "nowhere"})
def test_an_alias_that_is_not_there_is_an_error():
    (error,) = check_settings(None)
    assert error.id == "agent_sessions.E002"
    assert "LISTEN_DATABASE" in error.msg
