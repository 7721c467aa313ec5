from __future__ import annotations

import copy
import dataclasses
from contextlib import contextmanager
from typing import Any

import pytest
from django.core.checks import run_checks
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.db import connections

from django_agent_sessions.checks import (
    check_access,
    check_api_apps,
    check_blob_storage,
    check_connection_setup,
    check_detectors,
    check_full_text_search,
    check_proxies,
    check_quotas,
    check_settings,
    check_storage,
    check_throttles,
)
from django_agent_sessions.conf import AgentSessionsSettings
from django_agent_sessions.models.access import AccessRule, ObjectPermissions


def found(check) -> list[tuple[str | None, str, str | None]]:
    return [(problem.id, problem.msg, problem.hint) for problem in check(None)]


def test_the_test_project_itself_is_sound():
    assert [problem for problem in run_checks() if "agent_sessions" in str(problem.id)] == []


def test_an_unknown_key_is_an_error_that_lists_the_keys(settings):
    settings.AGENT_SESSIONS = {"MAX_PAYLOAD_DEPHT": 5}

    ((number, message, hint),) = found(check_settings)
    assert number == "agent_sessions.E001"
    assert "MAX_PAYLOAD_DEPHT" in message
    assert hint is not None
    assert "MAX_PAYLOAD_DEPTH" in hint


@pytest.mark.parametrize(
    ("key", "meant"),
    [("BLOB_STORGE", "BLOB_STORAGE"), ("database", "DATABASE"), ("COLOUR", ""), (5, "")],
)
def test_a_key_that_is_nearly_one_is_told_with_the_one_that_is_meant(settings, key, meant):
    settings.AGENT_SESSIONS = {key: None}

    ((_, _, hint),) = found(check_settings)
    assert str(hint).startswith(f"Did you mean {meant}? The keys" if meant else "The keys are: ")


def test_all_that_is_wrong_is_told_at_once(settings):
    settings.AGENT_SESSIONS = {
        "BLOB_STORGE": "default",
        "BLOB_STORAGE": "nowhere",
        "BLOB_PREFIX": "../up",
        "DATABASE": 5,
        "LISTEN_DATABASE": "elsewhere",
        "REDACT_ON_WRITE": ["emial"],
        "CONNECTION_SETUP": "no.such.thing",
    }

    told = sorted(str(problem.id).partition(".")[2] for problem in run_checks() if problem.id)

    errors = [number for number in told if number.startswith("E")]
    assert errors == ["E001", "E001", "E002", "E003", "E004", "E005", "E006"]


@pytest.mark.parametrize(
    ("given", "message", "hint"),
    [
        ({"MAX_PAYLOAD_DEPTH": "5"}, "is of type str", "must be a whole number, 1 or more."),
        ({"MAX_PAYLOAD_DEPTH": True}, "is of type bool", "must be a whole number"),
        ({"MAX_PAYLOAD_DEPTH": 5.0}, "is of type float", "must be a whole number"),
        ({"MAX_PAYLOAD_BYTES": None}, "is of type NoneType", "must be a whole number, 1 or more."),
        ({"BLOB_URL_SECONDS": "5"}, "is of type str", "must be a whole number, 1 or more, or None"),
        ({"BLOB_URL_SECONDS": 0}, "is 0", "must be a whole number, 1 or more, or None"),
        ({"BLOB_PLACEHOLDERS": 1}, "is of type int", "must be True or False"),
        ({"BLOB_PREFIX": None}, "is of type NoneType", "must be a string."),
        ({"DATABASE": 3}, "is of type int", "must be a string, or None"),
        ({"WRITE_RETRIES": 0}, "is 0", "1 or more"),
        ({"MAX_CONNECTIONS": -1}, "is -1", "1 or more"),
        ({"RETRY_SECONDS": 0}, "is 0", "must be a finite number, more than 0."),
        ({"RETRY_SECONDS": -0.5}, "is -0.5", "more than 0"),
        ({"RETRY_SECONDS": float("inf")}, "is inf", "must be a finite number"),
        ({"RETRY_SECONDS": float("nan")}, "is nan", "must be a finite number"),
        ({"RETRY_SECONDS": "10"}, "is of type str", "must be a finite number"),
        ({"REDACT_ON_WRITE": "card"}, "is of type str", 'a list of strings, such as ["card"].'),
        ({"REDACT_ON_WRITE": ["card", 5]}, "has an item of type int", "a list of strings"),
        ({"DETECTORS": {"a": "b"}}, "is of type dict", "a list of strings, such as"),
        (["DATABASE"], "must be a dict", "AGENT_SESSIONS = {"),
    ],
)
def test_a_wrong_value_is_an_error_with_a_hint(settings, given, message, hint):
    settings.AGENT_SESSIONS = given

    ((number, said, hinted),) = found(check_settings)
    assert number == "agent_sessions.E001"
    assert message in said
    assert hint in str(hinted)


@pytest.mark.parametrize(
    "given",
    [
        {"RETRY_SECONDS": 0.5},
        {"RETRY_SECONDS": 1},
        {"BLOB_URL_SECONDS": None},
        {"BLOB_URL_SECONDS": 60},
        {"REDACT_ON_WRITE": ["card"]},
        {"REDACT_ON_WRITE": ("card",)},
        {"DETECTORS": []},
        {"WRITE_RETRIES": 1, "BLOB_PLACEHOLDERS": False, "DATABASE": "default"},
    ],
)
def test_what_an_error_asks_for_is_right(settings, given):
    settings.AGENT_SESSIONS = given
    assert found(check_settings) == []


@pytest.mark.parametrize("key", [field.name for field in dataclasses.fields(AgentSessionsSettings)])
def test_every_key_says_what_it_takes(settings, key):
    settings.AGENT_SESSIONS = {key: object()}

    ((_, message, hint),) = found(check_settings)
    assert message == f"AGENT_SESSIONS[{key!r}] is of type object"
    assert str(hint).startswith("It must be ")

    settings.AGENT_SESSIONS = {key: getattr(AgentSessionsSettings(), key)}
    assert found(check_settings) == []


def test_an_error_of_the_settings_stops_manage_check(settings):
    settings.AGENT_SESSIONS = {"TYPO": 1}

    with pytest.raises(SystemCheckError, match=r"agent_sessions\.E001"):
        call_command("check")


@pytest.mark.parametrize("given", [["x"], "default", 5, ("DATABASE",)])
@pytest.mark.django_db
def test_a_setting_that_is_no_dict_is_said_and_breaks_no_check(settings, given):
    settings.AGENT_SESSIONS = given

    for arguments in ([], ["--database", "default"], ["agent_sessions"]):
        with pytest.raises(SystemCheckError, match=r"E001\) AGENT_SESSIONS must be a dict") as told:
            call_command("check", *arguments)
        assert "1 issue" in str(told.value)


def test_a_database_that_does_not_exist_is_an_error_that_lists_the_aliases(settings):
    settings.AGENT_SESSIONS = {"DATABASE": "elsewhere"}

    assert found(check_settings) == [
        (
            "agent_sessions.E002",
            "AGENT_SESSIONS['DATABASE'] is 'elsewhere', which is not an alias in DATABASES",
            "The aliases in DATABASES are: default.",
        )
    ]
    assert found(check_storage) == []


def test_an_empty_alias_is_none_of_a_database(settings):
    key = "LISTEN_DATABASE"
    settings.AGENT_SESSIONS = {key: "", "DATABASE": ""}

    ((number, message, _),) = found(check_settings)
    assert number == "agent_sessions.E002"
    assert f"AGENT_SESSIONS[{key!r}] is ''" in message


@pytest.fixture
def second_database():
    """A second alias, of SQLite, without a file of its own."""
    configuration = copy.deepcopy(connections["default"].settings_dict)
    configuration.update(ENGINE="django.db.backends.sqlite3", NAME=":memory:", OPTIONS={})
    connections.settings["second"] = configuration
    yield configuration
    del connections["second"]
    del connections.settings["second"]


@pytest.mark.parametrize("name", ["english'", "", "a b", "a.b.c", "simple'); --"])
def test_what_cannot_name_a_configuration_of_postgresql_stops_manage_check(
    settings, second_database, name
):
    second_database["ENGINE"] = "django.db.backends.postgresql"
    settings.AGENT_SESSIONS = {"DATABASE": "second", "FULL_TEXT_SEARCH": name}

    with pytest.raises(SystemCheckError, match=r"agent_sessions\.E007.*FULL_TEXT_SEARCH"):
        call_command("check")


@pytest.mark.parametrize("name", ["simple", "English", "pg_catalog.english"])
def test_what_can_name_a_configuration_is_no_error_without_a_database(
    settings, second_database, name
):
    second_database["ENGINE"] = "django.db.backends.postgresql"
    settings.AGENT_SESSIONS = {"DATABASE": "second", "FULL_TEXT_SEARCH": name}

    assert found(check_full_text_search) == []


def test_sqlite_without_immediate_transactions_is_a_warning(settings, second_database):
    settings.AGENT_SESSIONS = {"DATABASE": "second"}

    assert "agent_sessions.W001" in [number for number, _, _ in found(check_storage)]

    second_database["OPTIONS"]["transaction_mode"] = "IMMEDIATE"
    assert "agent_sessions.W001" not in [number for number, _, _ in found(check_storage)]


def test_a_sqlite_without_returning_is_an_error(settings, second_database, monkeypatch):
    settings.AGENT_SESSIONS = {"DATABASE": "second"}
    second_database["OPTIONS"]["transaction_mode"] = "IMMEDIATE"
    monkeypatch.setattr("sqlite3.sqlite_version", "3.34.1")
    monkeypatch.setattr("sqlite3.sqlite_version_info", (3, 34, 1))

    ((number, told, hint),) = found(check_storage)

    assert number == "agent_sessions.E017"
    assert "this Python has SQLite 3.34.1" in told
    assert hint == "Use a Python with SQLite 3.35 or newer, or another database."
    monkeypatch.setattr("sqlite3.sqlite_version_info", (3, 35, 0))
    assert found(check_storage) == []


@pytest.mark.parametrize(
    ("options", "level"),
    [
        ({"isolation_level": "REPEATABLE_READ"}, "REPEATABLE READ"),
        ({"isolation_level": "SERIALIZABLE"}, "SERIALIZABLE"),
        ({"isolation_level": "READ_COMMITTED"}, None),
        ({"options": "-c default_transaction_isolation=repeatable\\ read"}, "REPEATABLE READ"),
        ({"options": "-c default_transaction_isolation=serializable"}, "SERIALIZABLE"),
        ({"options": "-c statement_timeout=5000"}, None),
        ({"isolation_level": None}, None),
        ({}, None),
    ],
)
def test_a_level_of_isolation_in_which_a_redaction_can_be_missed_is_a_warning(
    settings, second_database, options, level
):
    from django.db.backends.postgresql.psycopg_any import IsolationLevel

    name = options.get("isolation_level")
    settings.AGENT_SESSIONS = {"DATABASE": "second"}
    second_database["ENGINE"] = "django.db.backends.postgresql"
    second_database["OPTIONS"] = options | (
        {"isolation_level": IsolationLevel[name]} if name else {}
    )

    told = {number: message for number, message, _ in found(check_storage)}
    assert ("agent_sessions.W012" in told) is (level is not None)
    if level is not None:
        assert f"are {level}:" in told["agent_sessions.W012"]


@pytest.mark.parametrize(
    ("pool", "size"),
    [
        (True, 4),
        ({"timeout": 5}, 4),
        ({"min_size": 2}, 2),
        ({"max_size": 8}, 8),
        ({"min_size": 8, "max_size": None}, 8),
        ({"max_size": 9}, None),
        ({"min_size": 9}, None),
        (False, None),
        (None, None),
    ],
)
def test_a_pool_that_requests_can_empty_before_their_agents_is_a_warning(
    settings, second_database, pool, size
):
    settings.AGENT_SESSIONS = {"DATABASE": "second"}
    second_database.update(ENGINE="django.db.backends.postgresql", OPTIONS={"pool": pool})

    told = {number: message for number, message, _ in found(check_storage)}
    assert ("agent_sessions.W009" in told) is (size is not None)
    if size is not None:
        assert f"has {size} connections, and agents may use 8" in told["agent_sessions.W009"]

        settings.AGENT_SESSIONS = {"DATABASE": "second", "MAX_CONNECTIONS": 1}
        assert "agent_sessions.W009" not in {number for number, _, _ in found(check_storage)}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"REDACT_ON_WRITE": ["emial"]}, "Unknown detector 'emial'"),
        ({"REDACT_ON_WRITE": ("email",), "DETECTORS": ["nowhere.Detector"]}, "nowhere"),
    ],
)
def test_a_detector_that_is_not_there_is_an_error_before_anything_is_written(
    settings, given, message
):
    settings.AGENT_SESSIONS = given

    ((number, said, hint),) = found(check_detectors)
    assert number == "agent_sessions.E003"
    assert message in said
    assert "REDACT_ON_WRITE" in str(hint)


def test_detectors_that_are_there_are_no_error(settings):
    settings.AGENT_SESSIONS = {"REDACT_ON_WRITE": ["email", "card"]}
    assert found(check_detectors) == []
    settings.AGENT_SESSIONS = {"REDACT_ON_WRITE": 5}
    assert found(check_detectors) == []


@contextmanager
def as_tenant(connection):
    yield


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no.such.thing", "'no.such.thing', which cannot be imported"),
        (f"{__name__}.missing", "which cannot be imported"),
        (f"{__name__}.__name__", "which is not callable"),
        # Such as an environment variable that is not set.
        ("", "'', which cannot be imported"),
    ],
)
def test_a_setup_of_connections_that_cannot_be_called_stops_manage_check(settings, path, message):
    settings.AGENT_SESSIONS = {"CONNECTION_SETUP": path}

    with pytest.raises(SystemCheckError, match=r"agent_sessions\.E006") as told:
        call_command("check")
    assert "AGENT_SESSIONS['CONNECTION_SETUP'] " in str(told.value)
    assert message in str(told.value)


@pytest.mark.parametrize("path", [f"{__name__}.as_tenant", None])
def test_a_setup_of_connections_that_is_there_is_no_error(settings, path):
    settings.AGENT_SESSIONS = {"CONNECTION_SETUP": path}
    assert found(check_connection_setup) == []


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no.such.Rule", "cannot be imported"),
        ("", "cannot be imported"),
        (f"{__name__}.missing", "cannot be imported"),
        (f"{__name__}.as_tenant", "is not a subclass of AccessRule"),
        ("django_agent_sessions.models.Session", "is not a subclass of AccessRule"),
    ],
)
def test_an_access_rule_that_is_none_stops_manage_check(settings, path, message):
    settings.AGENT_SESSIONS = {"ACCESS": path}

    with pytest.raises(SystemCheckError, match=r"agent_sessions\.E010") as told:
        call_command("check")
    assert message in str(told.value)


def test_an_access_rule_that_is_there_is_no_error(settings):
    for path in (None, "django_agent_sessions.models.access.AccessRule"):
        settings.AGENT_SESSIONS = {"ACCESS": path}
        assert found(check_access) == []


class Logged:
    def log(self) -> None:
        """It is no rule's."""


class Team(Logged, AccessRule):
    lead = frozenset[str]()

    def permit(self, user: Any, action: Any, session: Any) -> bool | None:
        return None

    @staticmethod
    def listed(user: Any, action: Any) -> None:
        """Only a rule of objects has it."""

    def _own(self) -> None:
        """Nobody's business."""


class Guarded(ObjectPermissions):
    def listed(self, user: Any, action: Any) -> None:
        return None


@pytest.mark.parametrize(("rule", "names"), [("Team", ["listed", "permit"]), ("Guarded", [])])
def test_a_method_of_an_access_rule_that_is_never_called_is_a_warning(settings, rule, names):
    settings.AGENT_SESSIONS = {"ACCESS": f"{__name__}.{rule}"}
    warned = check_access(None)
    assert [warning.id for warning in warned] == ["agent_sessions.W026"] * len(names)
    for warning, name in zip(warned, names, strict=True):
        assert f"{rule} has a method '{name}'" in warning.msg


def test_a_storage_of_binaries_that_is_not_there_is_an_error(settings):
    settings.AGENT_SESSIONS = {"BLOB_STORAGE": "nowhere"}
    (error,) = check_blob_storage(None)
    assert error.id == "agent_sessions.E004"
    assert "nowhere" in error.msg


def test_a_storage_of_binaries_that_everybody_can_read_is_a_warning(settings, tmp_path):
    settings.MEDIA_ROOT = str(tmp_path)

    def given(location):
        settings.STORAGES = {
            **settings.STORAGES,
            "blobs": {
                "BACKEND": "django.core.files.storage.FileSystemStorage",
                "OPTIONS": {"location": str(location)},
            },
        }
        settings.AGENT_SESSIONS = {"BLOB_STORAGE": "blobs"}
        return [found.id for found in check_blob_storage(None)]

    assert given(tmp_path / "inside") == ["agent_sessions.W004"]
    assert given(tmp_path.parent / "outside") == []


def test_a_storage_without_a_folder_is_a_warning(settings):
    """Each process would write to its own working directory."""
    settings.MEDIA_ROOT = ""
    settings.STORAGES = {
        **settings.STORAGES,
        "blobs": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    }
    settings.AGENT_SESSIONS = {"BLOB_STORAGE": "blobs"}

    assert [found.id for found in check_blob_storage(None)] == ["agent_sessions.W025"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, []),
        ({"querystring_auth": False}, ["agent_sessions.W004"]),
        ({"default_acl": "public-read"}, ["agent_sessions.W004"]),
    ],
)
def test_a_public_bucket_is_a_warning(settings, options, told):
    settings.STORAGES = {
        **settings.STORAGES,
        "blobs": {
            "BACKEND": "storages.backends.s3.S3Storage",
            "OPTIONS": {"bucket_name": "conversations", **options},
        },
    }
    settings.AGENT_SESSIONS = {"BLOB_STORAGE": "blobs"}
    assert [found.id for found in check_blob_storage(None)] == told


_LIMITS = ["MAX_OWNER_SESSIONS", "MAX_OWNER_BRANCHES", "MAX_OWNER_BYTES", "SEARCH_BYTES"]


@pytest.mark.parametrize("name", _LIMITS)
def test_a_limit_of_a_user_that_is_off_is_a_warning_before_deployment(settings, name):
    assert found(check_quotas) == []
    settings.AGENT_SESSIONS = {name: None}
    ((number, message, _),) = found(check_quotas)
    assert number == "agent_sessions.W020"
    assert name in message
    assert [p.id for p in run_checks(include_deployment_checks=True)].count(number) == 1
    assert number not in [problem.id for problem in run_checks()]


def test_a_throttle_that_is_off_or_counts_in_one_process_is_a_warning(settings):
    redis = {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": "redis://x"}
    settings.CACHES = {"default": redis}
    settings.REST_FRAMEWORK = {"DEFAULT_THROTTLE_RATES": {"agent-sessions": "1/min", "user": None}}
    assert found(check_throttles) == []
    settings.REST_FRAMEWORK = {"DEFAULT_THROTTLE_RATES": {"agent-sessions-search": None}}
    ((number, message, _),) = found(check_throttles)
    assert (number, "agent-sessions-search" in message) == ("agent_sessions.W021", True)
    settings.REST_FRAMEWORK = {}
    for backend in ("locmem.LocMemCache", "dummy.DummyCache"):
        settings.CACHES = {"default": {"BACKEND": f"django.core.cache.backends.{backend}"}}
        ((number, message, _),) = found(check_throttles)
        assert number == "agent_sessions.W022"


@pytest.mark.parametrize(
    ("links", "proxies", "warned"), [(True, None, True), (True, 0, False), (False, None, False)]
)
def test_share_links_need_the_number_of_proxies(settings, links, proxies, warned):
    settings.AGENT_SESSIONS = {"SHARE_LINKS": links}
    settings.REST_FRAMEWORK = {**settings.REST_FRAMEWORK, "NUM_PROXIES": proxies}
    assert [number for number, _, _ in found(check_proxies)] == ["agent_sessions.W023"] * warned


def test_a_project_without_the_api_is_warned_of_none_of_its_limits(settings):
    settings.INSTALLED_APPS = [app for app in settings.INSTALLED_APPS if app != "rest_framework"]
    settings.AGENT_SESSIONS = {"MAX_OWNER_SESSIONS": None}
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"}}
    assert (found(check_quotas), found(check_throttles)) == ([], [])


def without(settings, *names: str) -> None:
    settings.INSTALLED_APPS = [name for name in settings.INSTALLED_APPS if name not in names]


@pytest.mark.parametrize("urls", ["tests.urls", "example_project.urls"])
@pytest.mark.parametrize(
    "missing", [("rest_framework",), ("django_filters",), ("rest_framework", "django_filters")]
)
def test_the_api_without_its_apps_is_told(settings, urls, missing):
    settings.ROOT_URLCONF = urls
    without(settings, *missing)

    ((number, message, hint),) = found(check_api_apps)
    assert number == "agent_sessions.W016"
    for name in missing:
        assert name in message
        assert repr(name) in str(hint)


def test_the_apps_are_not_needed_without_the_urls_of_the_api(settings):
    settings.ROOT_URLCONF = "tests.contexts.views"
    without(settings, "rest_framework", "django_filters")

    assert found(check_api_apps) == []
    settings.ROOT_URLCONF = None
    assert found(check_api_apps) == []
