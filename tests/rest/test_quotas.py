"""What one user may store and ask for, by default and where a project says otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import cache
from django.core.cache.backends.locmem import LocMemCache
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.throttling import SimpleRateThrottle

from django_agent_sessions import conf
from django_agent_sessions.exceptions import QuotaExceededError
from django_agent_sessions.governance import quotas
from django_agent_sessions.models import (
    Branch,
    Session,
    SessionMessage,
    SessionMultiAgent,
    Snapshot,
)
from django_agent_sessions.queries import search
from django_agent_sessions.rest.base import DEFAULT_RATES, SessionThrottle, ThrottleScope
from django_agent_sessions.store import SessionStore
from django_agent_sessions.timeline import Timeline
from django_agent_sessions.values.owners import EVERYBODY
from django_agent_sessions.values.records import AgentState

from .conftest import Talk

pytestmark = pytest.mark.django_db

SESSIONS = "/api/sessions/"
THREADS = "/v1/threads"


@pytest.fixture(autouse=True)
def no_sums() -> Iterator[None]:
    cache.clear()
    yield
    cache.clear()


@pytest.fixture(autouse=True)
def site(settings) -> None:
    settings.ROOT_URLCONF = "tests.rest.whole_site"


@pytest.fixture
def limits(settings) -> Any:
    def limit(**values: Any) -> None:
        settings.AGENT_SESSIONS = values

    return limit


@pytest.fixture
def talk(ada) -> Talk:
    return Talk(ada, "one", "two", "three", session_id="talk")


def size_of(talk: Talk) -> int:
    measured = quotas.measure(talk.session.id, "default")
    return measured.messages + measured.states


def is_refused(answer: Any, setting: str) -> None:
    assert answer.status_code == 413, answer.content
    problem = answer.json()
    assert problem["code"] == "quota_exceeded"
    assert setting in problem["detail"]
    # It says what to do.
    assert "elete some" in problem["detail"] or "fork it" in problem["detail"]


# --- sessions, branches, bytes -------------------------------------------------------------------


def test_a_user_creates_no_more_sessions_than_allowed_and_opens_those_there_are(
    api, stranger, talk, limits
):
    limits(MAX_OWNER_SESSIONS=2)
    made = api.post(SESSIONS, {"external_id": "x"}, format="json")
    assert made.status_code == 201
    is_refused(api.post(SESSIONS, {}, format="json"), "MAX_OWNER_SESSIONS")
    is_refused(api.post(SESSIONS, {"external_id": "y"}, format="json"), "MAX_OWNER_SESSIONS")
    is_refused(api.post(f"{talk.url}fork/", {}, format="json"), "MAX_OWNER_SESSIONS")
    is_refused(api.post(THREADS, {}, format="json"), "MAX_OWNER_SESSIONS")
    assert Session.objects.count() == 2
    # The one there is, and another user's.
    assert api.post(SESSIONS, {"external_id": "x"}, format="json").status_code == 200
    assert stranger.post(SESSIONS, {}, format="json").status_code == 201
    assert api.delete(talk.url).status_code == 204
    assert api.post(SESSIONS, {}, format="json").status_code == 201


def test_a_user_creates_no_more_branches_than_allowed(api, talk, limits):
    limits(MAX_OWNER_BRANCHES=2)
    agent = f"/api/agents/{talk.agent.id}/"
    assert api.post(f"{agent}branches/", {}, format="json").status_code == 201
    assert api.post(f"{agent}rewind/", {"to": 1}, format="json").status_code == 200
    is_refused(api.post(f"{agent}branches/", {}, format="json"), "MAX_OWNER_BRANCHES")
    is_refused(api.post(f"{agent}rewind/", {"to": 0}, format="json"), "MAX_OWNER_BRANCHES")
    assert Branch.objects.count() == 2
    assert api.post(f"{agent}branches/1/switch/", format="json").status_code == 200


def test_states_and_snapshots_count_as_bytes(api, talk, limits):
    talk.store.agents.update(talk.agent, AgentState(state={"text": "x" * 100_000}))
    # With encryption, a state has a third more.
    limits(MAX_OWNER_BYTES=7 * quotas.measure(talk.session.id, "default").states // 2)
    snapshots = f"/api/agents/{talk.agent.id}/snapshots/"
    assert [api.post(snapshots).status_code for _ in range(2)] == [201, 201]
    is_refused(api.post(snapshots), "MAX_OWNER_BYTES")
    cache.clear()
    is_refused(api.post(snapshots), "MAX_OWNER_BYTES")
    Snapshot.objects.all().delete()
    cache.clear()
    assert api.post(snapshots).status_code == 201


def test_a_fork_counts_the_states_that_it_copies(api, talk, limits):
    talk.store.agents.update(talk.agent, AgentState(state={"text": "x" * 100_000}))
    SessionMultiAgent.objects.create(
        session_id=talk.session.id, multi_agent_id="graph", state={"text": "x" * 100_000}
    )
    # The session itself has 200 kB, and with encryption a third more.
    limits(MAX_OWNER_BYTES=5 * quotas.measure(talk.session.id, "default").states // 2)
    assert api.post(f"{talk.url}fork/", {}, format="json").status_code == 201
    is_refused(api.post(f"{talk.url}fork/", {}, format="json"), "MAX_OWNER_BYTES")
    cache.clear()
    is_refused(api.post(f"{talk.url}fork/", {}, format="json"), "MAX_OWNER_BYTES")


def test_a_user_takes_no_more_snapshots_of_a_session_than_allowed(api, talk, limits):
    limits(MAX_OWNER_BRANCHES=2)
    snapshots = f"/api/agents/{talk.agent.id}/snapshots/"
    assert [api.post(snapshots).status_code for _ in range(2)] == [201, 201]
    is_refused(api.post(snapshots), "MAX_OWNER_BRANCHES")
    assert Snapshot.objects.count() == 2


def test_a_user_adds_no_more_bytes_than_allowed(api, ada, limits):
    talk = Talk(ada, "x" * 10_000, session_id="large")
    limits(MAX_OWNER_BYTES=5 * size_of(talk) // 2)
    thread = api.post(THREADS, {}, format="json").json()["thread_id"]
    assert api.post(f"{talk.url}fork/", {}, format="json").status_code == 201
    before = SessionMessage.objects.count()
    message = {"parent_id": None, "format": "ai-sdk/v6", "content": {"text": "y" * 9000}}
    is_refused(api.post(f"{talk.url}fork/", {}, format="json"), "MAX_OWNER_BYTES")
    agent = f"/api/agents/{talk.agent.id}/"
    is_refused(api.post(f"{agent}branches/", {}, format="json"), "MAX_OWNER_BYTES")
    is_refused(api.post(f"{THREADS}/{thread}/messages", message, format="json"), "MAX_OWNER_BYTES")
    assert SessionMessage.objects.count() == before
    # What an agent says is never refused.
    talk.store.append(talk.agent, {"role": "user", "content": [{"text": "z" * 10_000}]})


@pytest.mark.parametrize("other", ["schema", "database"])
def test_the_bytes_of_a_user_of_another_tenant_are_not_counted(limits, monkeypatch, other):
    limits(MAX_OWNER_BYTES=1000)
    quotas.check_bytes(1, 1, "default")
    quotas.count_bytes(1, 900, "default")
    with pytest.raises(QuotaExceededError):
        quotas.check_bytes(1, 500, "default")

    if other == "schema":
        monkeypatch.setattr(connection, "schema_name", "b", raising=False)
    else:
        monkeypatch.setitem(connection.settings_dict, "NAME", "that of another tenant")
    quotas.check_bytes(1, 500, "default")


def kept_bytes(owner: Any) -> int:
    used: int = cache.get(quotas._name(owner.pk, "default"))[0]
    return used


def test_a_copy_is_counted_once_it_is_made(api, ada, talk):
    talk.store.agents.update(talk.agent, AgentState(state={"text": "é" * 500}))
    SessionMultiAgent.objects.create(
        session_id=talk.session.id, multi_agent_id="graph", state={"text": "x" * 100}
    )
    agent = f"/api/agents/{talk.agent.id}/"
    snapshot = talk.store.snapshots.take(talk.agent)
    changes = [
        (f"{talk.url}fork/", {}, 201),
        (f"{talk.url}fork/", {"at": talk_key(talk)}, 201),
        (f"{agent}branches/", {"at": talk_key(talk)}, 201),
        (f"{agent}snapshots/", {}, 201),
        (f"{agent}rewind/", {"to": 1}, 200),
        (f"{agent}branches/1/switch/", {}, 200),
        (f"{agent}snapshots/{snapshot.id}/restore/", {}, 200),
    ]
    for path, body, code in changes:
        answer = api.post(path, body, format="json")
        assert answer.status_code == code, (path, answer.content)
        counted = kept_bytes(ada)
        cache.clear()
        quotas.require_room(ada.pk, 0, "default")
        assert counted == kept_bytes(ada), path


def test_a_user_without_room_for_a_state_does_not_switch_branches(api, talk, limits):
    agent = f"/api/agents/{talk.agent.id}/"
    assert api.post(f"{agent}branches/", {}, format="json").status_code == 201
    talk.store.agents.update(talk.agent, AgentState(state={"text": "x" * 100_000}))
    limits(MAX_OWNER_BYTES=150_000)
    cache.clear()
    # The present state becomes a snapshot.
    is_refused(api.post(f"{agent}branches/1/switch/", format="json"), "MAX_OWNER_BYTES")
    assert Snapshot.objects.count() == 0
    limits(MAX_OWNER_BYTES=350_000)
    assert api.post(f"{agent}branches/1/switch/", format="json").status_code == 200
    assert Snapshot.objects.count() == 1


@pytest.mark.parametrize("full", ["", "MAX_OWNER_BRANCHES", "MAX_OWNER_BYTES"])
def test_a_request_that_stores_nothing_is_neither_counted_nor_refused(api, ada, talk, limits, full):
    agent = f"/api/agents/{talk.agent.id}/"
    changes = [
        ("rewind/", {"to": 0, "name": "taken"}, 409),
        ("rewind/", {"to": 0, "name": "main"}, 409),
        ("branches/", {"name": "taken"}, 409),
        ("rewind/", {"to": 2}, 200),
        ("rewind/", {"to": 2, "name": "taken"}, 200),
    ]
    for name in ("taken", "other"):
        assert api.post(f"{agent}branches/", {"name": name}, format="json").status_code == 201
    assert api.post(f"{talk.url}fork/", {"external_id": "x"}, format="json").status_code == 201
    before = kept_bytes(ada)
    if full:
        limits(**{full: 1})

    for path, body, code in changes:
        answer = api.post(f"{agent}{path}", body, format="json")
        assert answer.status_code == code, (path, body, answer.content)
        assert code == 409 or answer.json() == {"branch": None}
    again = {"external_id": "x", "at": talk_key(talk)}
    assert api.post(f"{talk.url}fork/", again, format="json").status_code == 409

    assert kept_bytes(ada) == before
    assert (Session.objects.count(), Branch.objects.count()) == (2, 2)
    if full:
        is_refused(api.post(f"{agent}branches/", {"name": "new"}, format="json"), full)
        is_refused(api.post(f"{agent}rewind/", {"to": 0, "name": "new"}, format="json"), full)
        assert kept_bytes(ada) == before


def talk_key(talk: Talk) -> str:
    return str(talk.store.messages.list(talk.agent)[0].id)


def test_what_was_deleted_no_longer_counts_after_a_minute(api, ada, limits, monkeypatch):
    talk = Talk(ada, "x" * 10_000, session_id="large")
    other = Talk(ada, "x" * 10_000, session_id="other")
    limits(MAX_OWNER_BYTES=5 * size_of(talk) // 2)
    is_refused(api.post(f"{talk.url}fork/", {}, format="json"), "MAX_OWNER_BYTES")
    assert api.delete(other.url).status_code == 204
    is_refused(api.post(f"{talk.url}fork/", {}, format="json"), "MAX_OWNER_BYTES")
    monkeypatch.setattr(quotas, "_RECENT_SECONDS", 0)
    assert api.post(f"{talk.url}fork/", {}, format="json").status_code == 201


def test_the_bytes_of_a_user_are_summed_once_and_not_at_each_message(api, ada):
    thread = api.post(THREADS, {}, format="json").json()["thread_id"]

    def say(text: str) -> list[str]:
        body = {"parent_id": None, "format": "ai-sdk/v6", "content": {"text": text}}
        with CaptureQueriesContext(connection) as captured:
            assert api.post(f"{THREADS}/{thread}/messages", body, format="json").status_code == 200
        return [query["sql"] for query in captured if "SUM(" in query["sql"]]

    assert say("first")
    assert not say("second")


def test_a_cache_that_is_down_stops_nobody(ada, monkeypatch):
    def down(*arguments: Any) -> None:
        raise ConnectionError("down")

    monkeypatch.setattr(LocMemCache, "get", down)
    monkeypatch.setattr(LocMemCache, "set", down)
    quotas.check_bytes(ada.pk, 1, "default")


def test_without_quotas_nothing_is_asked(ada, talk, limits):
    limits(MAX_OWNER_SESSIONS=None, MAX_OWNER_BRANCHES=None, MAX_OWNER_BYTES=None)
    row = Session.objects.get()
    with CaptureQueriesContext(connection) as captured:
        quotas.check_sessions(ada.pk, "default")
        quotas.check_branches(ada.pk, "default")
        quotas.check_snapshots(row, "default")
        quotas.check_bytes(ada.pk, 10**12, "default")
    assert len(captured) == 0


def test_the_admin_and_agents_have_no_quotas(ada, talk, limits):
    limits(MAX_OWNER_SESSIONS=1, MAX_OWNER_BRANCHES=1, MAX_OWNER_BYTES=1)
    row = Session.objects.get()
    Timeline(row, ada, "default").fork()
    store = SessionStore(owner=EVERYBODY)
    store.branches.create(talk.agent)
    store.branches.create(talk.agent)
    assert (Session.objects.count(), Branch.objects.count()) == (2, 2)


# --- bytes of a request and of an answer ---------------------------------------------------------


def test_metadata_has_a_largest_size(api, talk, limits):
    limits(MAX_METADATA_BYTES=1000)
    small, large = {"a": "é" * 400}, {"a": "é" * 600}
    for path, method, field in (
        (talk.url, api.patch, {"metadata": large}),
        (SESSIONS, api.post, {"metadata": large}),
        (THREADS, api.post, {"metadata": large}),
        (f"{THREADS}/{talk.session.id}", api.put, {"metadata": large}),
    ):
        refused = method(path, field, format="json")
        assert refused.status_code == 413, path
        assert "at most 1000 bytes" in refused.json()["detail"]
    assert Session.objects.get().metadata == {}
    assert api.patch(talk.url, {"metadata": small}, format="json").status_code == 200


def test_a_list_of_threads_is_no_larger_than_an_answer_may_be(api, ada, limits):
    for number in range(20):
        # Larger than a client may send.
        metadata = {"a": "x" * (100_000 if number % 2 else 10)}
        SessionStore(owner=ada).create(f"s{number}", metadata=metadata)
    whole = api.get(f"{THREADS}?limit=20")
    limits(MAX_ANSWER_BYTES=200_000)
    answer = api.get(f"{THREADS}?limit=20")
    assert len(whole.content) > 1_000_000
    assert len(answer.content) < 200_000
    threads = answer.json()["threads"]
    assert [len(thread["metadata"].get("a", "")) for thread in threads] == [0, 10] * 10
    # One of them is answered whole.
    thread = api.get(f"{THREADS}/{threads[0]['id']}").json()["thread"]
    assert len(thread["metadata"]["a"]) == 100_000


def test_by_default_a_hundred_threads_are_within_ten_megabytes(api, ada):
    for number in range(100):
        SessionStore(owner=ada).create(f"s{number}", metadata={"a": "x" * 740_000})
    assert len(api.get(f"{THREADS}?limit=100").content) < 10_000_000


def test_the_server_messages_of_a_thread_are_no_larger_than_an_answer_may_be(api, ada, limits):
    talk = Talk(ada, *["x" * 20_000 for _ in range(220)], session_id="large")
    limits(MAX_ANSWER_BYTES=100_000)
    with CaptureQueriesContext(connection) as captured:
        answer = api.get(f"{THREADS}/{talk.session.id}/messages?limit=200")
    assert answer.status_code == 200
    assert len(answer.json()["messages"]) > 100
    assert len(captured) < 25


# --- searches ------------------------------------------------------------------------------------


def test_a_search_reads_the_newest_texts_up_to_its_limit(api, ada, limits):
    Talk(ada, *[f"needle {number} {'x' * 1000}" for number in range(20)], session_id="long")
    found = api.get(SESSIONS, {"q": "needle 3 "}).json()
    assert len(found["results"]) == 1
    assert found["search"] == {"truncated": False, "limited": False}
    limits(SEARCH_BYTES=5_000)
    found = api.get(SESSIONS, {"q": "needle 3 "}).json()
    assert found["results"] == []
    # It says that there are older messages.
    assert found["search"] == {"truncated": False, "limited": True}
    assert len(api.get(SESSIONS, {"q": "needle 19 "}).json()["results"]) == 1


def test_a_search_in_a_session_has_the_same_limit_and_searches_the_newest_in_any_case(ada, limits):
    talk = Talk(ada, *[f"needle {number} {'x' * 1000}" for number in range(20)], session_id="long")
    limits(SEARCH_BYTES=5_000)
    assert len(search.find_messages(talk.session.id, "needle")) == 4
    limits(SEARCH_BYTES=10)
    assert len(search.find_messages(talk.session.id, "needle")) == 1
    limits(SEARCH_BYTES=None)
    assert len(search.find_messages(talk.session.id, "needle")) == 20
    limits(SEARCH_BYTES=None, SEARCH_CANDIDATES=7)
    assert len(search.find_messages(talk.session.id, "needle")) == 7
    limits(SEARCH_CANDIDATES=7)
    assert len(search.find_messages(talk.session.id, "needle")) == 7


def test_a_search_asks_as_often_with_a_limit_of_bytes_as_without(ada, limits):
    talk = Talk(ada, *[f"needle {number}" for number in range(20)], session_id="long")

    def asked() -> int:
        with CaptureQueriesContext(connection) as captured:
            search.find_messages(talk.session.id, "needle")
        return len(captured)

    with_limit = asked()
    limits(SEARCH_BYTES=None)
    assert with_limit == asked()


# --- throttles -----------------------------------------------------------------------------------


@pytest.fixture
def rates(monkeypatch) -> Any:
    def set_rates(**values: str | None) -> None:
        monkeypatch.setattr(SimpleRateThrottle, "THROTTLE_RATES", values)

    return set_rates


def test_every_scope_has_a_rate_unless_a_project_sets_another_or_none(rates):
    rates()
    assert set(DEFAULT_RATES) == set(ThrottleScope)
    for scope in ThrottleScope:
        assert SessionThrottle(scope).rate == DEFAULT_RATES[scope]
    rates(**{"agent-sessions": "5/min", "agent-sessions-search": None})
    assert SessionThrottle(ThrottleScope.ALL).rate == "5/min"
    assert SessionThrottle(ThrottleScope.SEARCH).rate is None
    assert SessionThrottle(ThrottleScope.EXPORT).rate == DEFAULT_RATES[ThrottleScope.EXPORT]


def test_by_default_a_user_who_searches_too_often_is_told_to_wait(api, stranger, rates):
    rates()
    answers = [api.get(SESSIONS, {"q": "x"}).status_code for _ in range(60)]
    assert set(answers) == {200}
    refused = api.get(SESSIONS, {"q": "x"})
    assert refused.status_code == 429
    assert 0 < int(refused["Retry-After"]) <= 60
    assert "available in" in refused.json()["detail"]
    # A list, and another user's search.
    assert api.get(SESSIONS).status_code == 200
    assert stranger.get(SESSIONS, {"q": "x"}).status_code == 200


def test_the_defaults_are_on():
    settings = conf.AgentSessionsSettings()
    assert None not in (
        settings.MAX_OWNER_SESSIONS,
        settings.MAX_OWNER_BRANCHES,
        settings.MAX_OWNER_BYTES,
        settings.SEARCH_BYTES,
    )


def test_a_chat_creates_no_more_sessions_and_stores_no_more_than_allowed(api, talk, limits):
    body = {
        "id": "new",
        "trigger": "submit-message",
        "messages": [{"id": "m", "role": "user", "parts": [{"type": "text", "text": "Hello"}]}],
    }
    limits(MAX_OWNER_SESSIONS=1)
    is_refused(api.post("/chat", body, format="json"), "MAX_OWNER_SESSIONS")
    limits(MAX_OWNER_BYTES=1)
    is_refused(api.post("/chat", body, format="json"), "MAX_OWNER_BYTES")
    assert Session.objects.count() == 1
