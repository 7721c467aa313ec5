from __future__ import annotations

import dataclasses

import pytest

from django_agent_sessions import conf
from django_agent_sessions.conf import AgentSessionsSettings, get_settings
from django_agent_sessions.exceptions import ConfigurationError


def test_without_the_setting_the_defaults_hold(settings):
    settings.AGENT_SESSIONS = {}
    assert get_settings() == AgentSessionsSettings()
    settings.AGENT_SESSIONS = None
    assert get_settings() == AgentSessionsSettings()
    del settings.AGENT_SESSIONS
    assert get_settings() == AgentSessionsSettings()


def test_settings_are_read_at_each_access(settings):
    settings.AGENT_SESSIONS = {"WRITE_RETRIES": 3}
    assert get_settings().WRITE_RETRIES == 3

    settings.AGENT_SESSIONS = {"WRITE_RETRIES": 4}
    assert get_settings().WRITE_RETRIES == 4


def test_a_key_given_changes_only_that_key(settings):
    settings.AGENT_SESSIONS = {"MAX_PAYLOAD_DEPTH": 5}

    assert get_settings() == dataclasses.replace(AgentSessionsSettings(), MAX_PAYLOAD_DEPTH=5)


def test_an_unknown_key_does_not_break_a_request(settings):
    settings.AGENT_SESSIONS = {"MAX_PAYLOAD_DEPHT": 5}

    assert get_settings() == AgentSessionsSettings()


@pytest.mark.parametrize("given", [["DATABASE"], "default", 5])
def test_what_is_no_dict_is_refused_by_the_name_of_the_setting(settings, given):
    settings.AGENT_SESSIONS = given

    with pytest.raises(ConfigurationError, match="AGENT_SESSIONS must be a dict"):
        get_settings()


@pytest.mark.parametrize("key", ["EXPORT_SECONDS", "SHARE_LINK_SECONDS"])
def test_a_duration_beyond_all_dates_is_refused(key):
    ((told, _hint),) = conf.problems({key: 10**11})
    assert told == f"AGENT_SESSIONS['{key}'] is longer than 100 years"
    assert conf.problems({key: 10**9, "BLOB_URL_SECONDS": None}) == []


def test_settings_cannot_be_changed_in_place():
    with pytest.raises(dataclasses.FrozenInstanceError):
        get_settings().WRITE_RETRIES = 1  # type: ignore[misc] # that is what is tried
