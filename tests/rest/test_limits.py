"""What a session's owner may not do: by a hold, by a project's choice, by asking too often."""

from __future__ import annotations

import pytest
from django.core.cache import cache
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient, APIRequestFactory, force_authenticate

from django_agent_sessions.governance import legal_hold
from django_agent_sessions.models import Session
from django_agent_sessions.models.permissions import SessionPermission
from django_agent_sessions.rest.viewsets import SessionViewSet
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.records import AgentState

from .conftest import Talk

pytestmark = pytest.mark.django_db

SESSIONS = "/api/sessions/"


class Elsewhere(SessionViewSet):
    namespace = "elsewhere"


class ReadOnly(SessionViewSet):
    owner_may = frozenset({SessionPermission.READ})


class Renaming(SessionViewSet):
    owner_may = frozenset({SessionPermission.READ, SessionPermission.CHANGE})


def ask(view, user, method: str, body, **kwargs):
    """Calls one view by itself."""
    request = getattr(APIRequestFactory(), method)("/sessions/", body, format="json")
    force_authenticate(request, user)
    actions = {"post": "create", "patch": "partial_update"}
    response = view.as_view({method: actions[method]})(request, **kwargs)
    response.render()
    return response


def test_a_held_session_keeps_its_title_and_metadata_and_may_be_put_away(api, ada):
    talk = Talk(ada, "Hello", title="Evidence", metadata={"case": 1})
    legal_hold.hold(talk.session.id, reason="A lawsuit")
    changes: list[dict] = [{"title": "gone"}, {"metadata": {}}]
    for change in changes:
        refused = api.patch(talk.url, change, format="json")
        assert refused.status_code == 409
        assert refused.json()["code"] == "legal_hold"
    assert (
        api.patch(talk.url, {"archived": True, "title": "Evidence"}, format="json").status_code
        == 200
    )
    row = Session.objects.get()
    assert (row.title, row.metadata) == ("Evidence", {"case": 1})


def test_by_an_external_id_nobody_changes_what_they_may_not(ada):
    SessionStore(owner=ada).sessions.open_external("mine", title="Kept")
    refused = ask(ReadOnly, ada, "post", {"external_id": "mine", "title": "Changed"})
    assert refused.status_code == 404
    assert ask(ReadOnly, ada, "post", {"external_id": "mine"}).status_code == 200
    assert Session.objects.get().title == "Kept"


def test_the_same_external_id_in_two_namespaces_is_two_sessions(ada):
    SessionStore(owner=ada).sessions.open_external("mine", title="Kept")
    for expected in (201, 200):
        created = ask(Elsewhere, ada, "post", {"external_id": "mine", "title": "Other"})
        assert created.status_code == expected
        assert b"Kept" not in created.content
    titles = Session.objects.order_by("namespace").values_list("namespace", "title")
    assert list(titles) == [("", "Kept"), ("elsewhere", "Other")]


def test_who_may_not_delete_lets_nothing_expire(ada):
    talk = Talk(ada, "Hello")
    expiring = {"expires_at": "2020-01-01T00:00:00Z"}
    assert ask(Renaming, ada, "patch", expiring, session=str(talk.session.id)).status_code == 404
    assert (
        ask(Renaming, ada, "patch", {"title": "x"}, session=str(talk.session.id)).status_code == 200
    )
    assert Session.objects.get().expires_at is None


def test_a_preview_answers_no_guess_about_an_agents_state(api, ada):
    talk = Talk(ada, "Hello")
    state = AgentState(conversation_manager_state={"__name__": "hunter2Manager"})
    talk.store.agents.update(talk.agent, state)
    for guess in ("hunter2", "hunter3"):
        for dry_run in (True, False):
            body = {"find": guess, "dry_run": dry_run, "reason": "a guess"}
            found = api.post(f"{talk.url}redact/", body, format="json").json()
            assert (found["hits"], found["kept"]) == ([], [])


def test_a_session_is_told_without_reading_its_agents_states(api, ada):
    talk = Talk(ada, "Hello")
    with CaptureQueriesContext(
        connection,
    ) as queries:
        assert api.get(talk.url).status_code == 200
    assert not [query for query in queries if "internal_state" in query["sql"]]


def test_a_tag_that_was_made_weak_on_the_way_still_guards(api, trip):
    weak = f"W/{api.get(trip.url)['ETag']}"

    def rename(title: str) -> int:
        changed = api.patch(trip.url, {"title": title}, format="json", headers={"If-Match": weak})
        return int(changed.status_code)

    assert (rename("A"), rename("B")) == (200, 412)
    now = f"W/{api.get(trip.url)['ETag']}"
    assert api.get(trip.url, headers={"If-None-Match": now}).status_code == 304


@pytest.fixture
def three_a_minute(monkeypatch):
    cache.clear()
    rates = {"agent-sessions": "3/min", "agent-sessions-search": "1/min"}
    monkeypatch.setattr("rest_framework.throttling.SimpleRateThrottle.THROTTLE_RATES", rates)
    yield
    cache.clear()


def test_every_request_counts_and_a_search_twice(api, trip, three_a_minute):
    answers = [api.get(url) for url in (SESSIONS, f"{trip.url}export/", f"{SESSIONS}?q=x")]
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    refused = api.get(trip.url)
    assert refused.status_code == 429
    assert int(refused["Retry-After"]) > 0
    assert refused.json()["error"]["type"] == "rate_limit_error"


def test_a_search_has_a_limit_of_its_own(api, stranger, trip, three_a_minute):
    assert [api.get(f"{SESSIONS}?q=x").status_code for _ in range(2)] == [200, 429]
    assert stranger.get(f"{SESSIONS}?q=x").status_code == 200


@pytest.mark.parametrize("place", ["", "messages/"])
def test_blank_words_are_no_search(api, trip, three_a_minute, place):
    url = f"{trip.url}{place}" if place else SESSIONS
    assert [api.get(f"{url}?q=%20").status_code for _ in range(2)] == [200, 200]


def test_a_user_of_a_token_whose_key_is_text_owns_what_it_owns(ada, trip):
    class TokenUser:
        pk = str(ada.pk)
        is_authenticated = True
        is_active = True

        def has_perms(self, wanted, obj=None) -> bool:
            return False

    client = APIClient()
    client.force_authenticate(TokenUser())  # type: ignore[arg-type] # as tokens have it
    assert len(client.get(SESSIONS).json()["results"]) == 1
    assert client.get(trip.url).status_code == 200
    assert client.get(f"{trip.url}messages/").status_code == 200
