"""What clients and probes are told, and how soon, while something that is needed is down."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.core.cache.backends.locmem import LocMemCache
from django.db import Error, OperationalError, connection, connections
from django.db.backends.signals import connection_created
from rest_framework.throttling import UserRateThrottle

from django_agent_sessions import health
from django_agent_sessions.rest.base import SessionAPI, ThrottleScope
from django_agent_sessions.store import SessionStore
from tests.rest import whole_site
from tests.rest.planted import routes

pytestmark = pytest.mark.django_db(transaction=True)

READ_ONLY = {
    "postgresql": "SET default_transaction_read_only = on",
    "mysql": "SET SESSION TRANSACTION READ ONLY",
    "sqlite": "PRAGMA query_only = on",
}


def outcomes(report: health.HealthReport) -> dict[str, bool]:
    return {check.name: check.ok for check in report.checks}


@pytest.fixture
def talk(ada):
    store = SessionStore(owner=ada)
    agent = store.agents.open(store.open("s"), dialect="openai")
    store.append(agent, {"role": "user", "content": "Hello"})
    return store, agent


@pytest.fixture
def api(client, ada):
    client.force_login(ada)
    client.raise_request_exception = False
    return client


@pytest.fixture
def read_only(talk, api):
    """Every connection is to a server that accepts no writes."""

    def forbid_writes(connection: Any, **_: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute(READ_ONLY[connection.vendor])

    connections.close_all()
    connection_created.connect(forbid_writes)
    yield
    connection_created.disconnect(forbid_writes)
    connections.close_all()


@pytest.fixture
def down(monkeypatch, settings) -> Iterator[ThreadPoolExecutor]:
    """A thread whose default database is at a port where no server listens."""
    settings.ROOT_URLCONF = "tests.rest.whole_site"
    settings.AGENT_SESSIONS = {**getattr(settings, "AGENT_SESSIONS", {}), "SHARE_LINKS": True}
    with socket.socket() as reserved, ThreadPoolExecutor(1) as thread:
        reserved.bind(("127.0.0.1", 0))
        server = {
            **connections.settings["default"],
            "ENGINE": "django.db.backends.postgresql",
            "NAME": "down",
            "HOST": "127.0.0.1",
            "PORT": reserved.getsockname()[1],
            "OPTIONS": {},
        }
        monkeypatch.setitem(connections.settings, "default", server)
        yield thread
        thread.submit(connections.close_all).result()


def expect_problem(answer: Any, code: str = "database_unavailable") -> None:
    assert answer.status_code == 503
    assert answer["Content-Type"] == "application/problem+json"
    assert int(answer["Retry-After"]) > 0
    assert answer.json()["code"] == code


def test_without_the_cache_requests_are_answered(api, talk, monkeypatch, caplog):
    def refuse(*_, **__):
        raise ConnectionError("secret host")

    rates = dict.fromkeys(ThrottleScope, "100/min")
    monkeypatch.setattr("rest_framework.throttling.SimpleRateThrottle.THROTTLE_RATES", rates)
    for name in ("get", "set", "add", "incr"):
        monkeypatch.setattr(LocMemCache, name, refuse)
    url = f"/api/sessions/{talk[1].session}/"

    assert api.get("/api/sessions/").status_code == 200
    assert api.get("/api/sessions/?q=Hello").status_code == 200
    patched = api.patch(url, {"title": "New"}, content_type="application/json")
    assert patched.status_code == 200
    assert health.check().ok
    assert "a request was not counted: the cache raised ConnectionError" in caplog.text
    assert "secret" not in caplog.text


def test_a_cache_that_fails_is_asked_once_for_each_request(api, talk, monkeypatch):
    asked = []

    def refuse(*_, **__):
        asked.append(1)
        raise TimeoutError

    rates = dict.fromkeys(ThrottleScope, "100/min")
    monkeypatch.setattr("rest_framework.throttling.SimpleRateThrottle.THROTTLE_RATES", rates)
    monkeypatch.setattr(LocMemCache, "get", refuse)

    # A rate for all requests, and one for searches.
    assert api.get("/api/sessions/?q=Hello").status_code == 200
    assert len(asked) == 1


class CacheLibraryError(Exception):
    """What the client of a cache raises."""


class ProjectThrottle(UserRateThrottle):
    rate = "100/min"


@pytest.mark.parametrize("error", [CacheLibraryError("secret host"), ConnectionError()])
def test_a_throttle_of_the_project_without_its_cache_is_a_problem_for_later(
    api, error, monkeypatch, caplog
):
    def refuse(*_, **__):
        raise error

    monkeypatch.setattr(SessionAPI, "throttle_classes", [ProjectThrottle])
    monkeypatch.setattr(LocMemCache, "get", refuse)

    expect_problem(api.get("/api/sessions/"), code="unavailable")
    assert type(error).__name__ in caplog.text
    assert "secret" not in caplog.text


def test_a_bug_in_a_throttle_of_the_project_is_no_outage(api, monkeypatch):
    class Wrong(UserRateThrottle):
        rate = "100/min"

        def get_cache_key(self, request, view):
            raise KeyError("a bug")

    monkeypatch.setattr(SessionAPI, "throttle_classes", [Wrong])

    assert api.get("/api/sessions/").status_code == 500


def test_a_database_that_is_down_is_a_problem_for_later(api, settings, caplog):
    settings.AGENT_SESSIONS = {**getattr(settings, "AGENT_SESSIONS", {}), "RETRY_SECONDS": 0}

    def refuse(*_: Any) -> None:
        raise OperationalError("secret host")

    with connection.execute_wrapper(refuse):
        answers = [
            api.get("/api/sessions/"),
            api.post("/api/sessions/", {"title": "New"}, content_type="application/json"),
        ]

    for answer in answers:
        expect_problem(answer)
    assert "secret" not in caplog.text


@pytest.mark.parametrize("atomic", [False, True], ids=["autocommit", "atomic"])
def test_a_server_that_refuses_connections_is_a_problem_at_every_route(
    api, down, atomic, monkeypatch
):
    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", atomic)
    ours = {route for route in routes(whole_site.urlpatterns) if not route.startswith("admin/")}

    for route in sorted(ours):
        url = "/" + re.sub(r"<[^>]*>", "x", route) + ("?path=[0]" if "media" in route else "")
        for ask in (api.get, api.post) if atomic else (api.get,):
            answer = down.submit(ask, url, headers={"accept": "application/json"}).result()
            expect_problem(answer)


def test_a_read_only_database_fails_a_write_at_once(talk, read_only):
    store, agent = talk
    started = time.monotonic()

    with pytest.raises(Error):
        store.append(agent, {"role": "user", "content": "Hello"})

    assert time.monotonic() - started < 5
    assert len(store.payloads(agent)) == 1


def test_a_read_only_database_is_a_problem_for_a_client_and_for_the_probe(talk, api, read_only):
    url = f"/api/sessions/{talk[1].session}/"

    expect_problem(api.patch(url, {"title": "New"}, content_type="application/json"))
    assert api.get(url).status_code == 200
    assert outcomes(health.check()) == {"database": False, "migrations": True, "pool": True}


def test_a_server_that_does_not_answer_fails_the_probe_in_time(monkeypatch):
    monkeypatch.setattr(health, "_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host, port = silent.getsockname()
        # Of new threads: this one has its connection.
        silenced = {
            **connections.settings["default"],
            "ENGINE": "django.db.backends.postgresql",
            "NAME": "silent",
            "HOST": host,
            "PORT": port,
            "OPTIONS": {},
        }
        monkeypatch.setitem(connections.settings, "default", silenced)
        started = time.monotonic()
        checks = [
            health._outcome("database", lambda: health._check_database("default")) for _ in range(2)
        ]
    assert [(check.ok, check.detail) for check in checks] == [(False, "TimeoutError")] * 2
    assert time.monotonic() - started < 5


def test_a_check_that_hangs_is_not_started_again(monkeypatch):
    monkeypatch.setattr(health, "_SECONDS", 0.1)
    release = threading.Event()
    monkeypatch.setattr(health, "_connect", lambda using: str(not release.wait(10))[:0])
    before = set(threading.enumerate())

    assert [health.check().ok for _ in range(3)] == [False] * 3

    started = set(threading.enumerate()) - before
    assert [thread.name for thread in started].count("agent-sessions-health") == 1
    release.set()
    monkeypatch.setattr(health, "_SECONDS", 5)
    assert health.check().ok
