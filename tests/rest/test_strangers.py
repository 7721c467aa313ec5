"""What is somebody else's answers exactly as what does not exist, and costs the same statements."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser
from django.core.signing import TimestampSigner
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient, APIRequestFactory, force_authenticate

from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.rest.viewsets import SessionViewSet
from django_agent_sessions.store import SessionStore

from .asks import BY_LINK
from .conftest import Talk, client_of
from .planted import (
    IMAGE,
    METHODS,
    PIXEL,
    Planted,
    ask,
    body_of,
    recorded,
    routes,
    rows,
    seen_in,
)

pytestmark = pytest.mark.django_db

BODIES: dict[str, Any] = {
    "sessions/<agent_sessions_uuid:session>/": {"title": "Mine"},
    "sessions/<agent_sessions_uuid:session>/redact/": {"find": "planted", "reason": "a ticket"},
    "sessions/<agent_sessions_uuid:session>/fork/": {"title": "Mine"},
    "agents/<agent_sessions_uuid:agent_key>/rewind/": {"to": 0},
    "agents/<agent_sessions_uuid:agent_key>/branches/": {"name": "mine"},
    "sessions/<agent_sessions_uuid:session>/participants/": {"user": "1", "role": "reader"},
    "sessions/<agent_sessions_uuid:session>/links/": {"seconds": 60},
    "messages/<agent_sessions_uuid:message>/redact/": {"reason": "a ticket"},
}
OF_SOMETHING = sorted(route for route in routes() if "<" in route and route not in BY_LINK)


def beside(key: UUID) -> str:
    """Makes a key that nothing has, and that stands in the same place in any order."""
    return str(UUID(int=key.int ^ 1))


def missing(planted: Planted, text: str) -> str:
    """Replaces the keys of what is there by some that are not."""
    others = (planted.snapshot, planted.participant, planted.link)
    for row in (planted.session, planted.agent, *others, *planted.messages):
        text = text.replace(str(row.pk), beside(row.pk))
    return text


def answered(client: APIClient, method: str, url: str, query: Any = None, data: Any = None) -> Any:
    """Gives all that a stranger could tell two answers apart by."""
    with CaptureQueriesContext(connection) as captured:
        answer = ask(client, method, url, query, data)
        text = body_of(answer)
    statements = [without_values(query["sql"]) for query in captured.captured_queries]
    return answer.status_code, text, dict(answer.headers), statements


def without_values(sql: str) -> str:
    """Takes keys, texts and moments out of a statement, as its parameters were before."""
    return re.sub(r"'[^']*'(::\w+)?|\b[0-9a-f]{32}\b|\b\d+\b", "?", sql)


@pytest.mark.parametrize("route", OF_SOMETHING)
def test_a_strangers_is_as_what_does_not_exist_on_every_route_by_every_method(
    planted, stranger, route
):
    before, trail = rows(), recorded()
    for method in METHODS:
        for scope in (None, "own", "all"):
            query = {"path": IMAGE} if "media" in route else {}
            query |= {"scope": scope} if scope else {}
            url = planted.url(route)
            theirs = answered(stranger, method, url, query, BODIES.get(route))
            none = answered(stranger, method, missing(planted, url), query, BODIES.get(route))
            assert theirs == none
            assert theirs[0] in (404, 405) or method == "options"
    assert (rows(), recorded()) == (before, trail)


@pytest.mark.parametrize("query", ["after", "before", "around"])
@pytest.mark.parametrize("agent", [None, "concierge"])
def test_a_strangers_message_is_no_better_place_in_a_list_than_a_missing_one(
    planted, stranger, bob, query, agent, monkeypatch
):
    # A cursor tells the second in which it was signed.
    monkeypatch.setattr(TimestampSigner, "timestamp", lambda signer: "1")
    own = Talk(bob, "One", "Two", session_id="own")
    # Encrypted messages are decrypted by a key that is read once.
    assert stranger.get(f"{own.url}messages/").status_code == 200
    for order in ("asc", "desc"):
        given = {"order": order, **({"agent": agent} if agent else {})}
        found = []
        for key in (str(planted.messages[1].pk), beside(planted.messages[1].pk)):
            told = answered(stranger, "get", f"{own.url}messages/", {**given, query: key})
            assert told[0] == (400 if agent else 200)
            # The cursors of what is found are made of one's own messages.
            found.append(told)
        assert found[0] == found[1]


@pytest.mark.parametrize("name", ["after", "cursor", "q", "external_id", "session_id", "agent"])
def test_nothing_of_a_strangers_session_tells_in_a_list(planted, stranger, name):
    said = {
        "after": (str(planted.session.pk), beside(planted.session.pk)),
        "cursor": ("x", "y"),
        "q": ("plantedtext", "plantednever"),
        "external_id": ("planted-x", "never"),
        "session_id": ("planted", "never"),
        "agent": ("concierge", "never"),
    }[name]
    theirs, none = (answered(stranger, "get", "/api/sessions/", {name: one}) for one in said)
    assert theirs == none
    assert seen_in(theirs[1]) == set()


@pytest.mark.parametrize("told", ["pk", "session_id", "title"])
def test_a_search_does_not_find_a_strangers_session_by_its_names(planted, stranger, told):
    query = str(getattr(planted.session, told))
    page = stranger.get("/api/sessions/", {"q": query}).json()
    assert page["results"] == []
    assert page["search"] == {"truncated": False, "limited": False}


def test_a_search_by_somebody_with_many_sessions_tells_nothing_of_strangers(
    ada, api, bob, monkeypatch
):
    # As with more sessions than are searched one by one, and more matches than are told.
    monkeypatch.setattr("django_agent_sessions.queries.search.MAX_SESSIONS_IN_SCOPE", 2)
    monkeypatch.setattr("django_agent_sessions.queries.search.MAX_MATCHES", 3)
    own = [Talk(ada, "a lighthouse", session_id=f"own-{number}") for number in range(4)]
    quiet = answered(api, "get", "/api/sessions/", {"q": "lighthouse"})
    never = answered(api, "get", "/api/sessions/", {"q": "gondola"})
    for number in range(5):
        Talk(bob, "a lighthouse, a gondola", session_id=f"theirs-{number}")
    assert answered(api, "get", "/api/sessions/", {"q": "lighthouse"})[:2] == quiet[:2]
    assert answered(api, "get", "/api/sessions/", {"q": "gondola"})[:2] == never[:2]
    assert len(own) == 4


def test_an_external_id_of_a_stranger_is_free(planted, stranger, ada):
    made = stranger.post("/api/sessions/", {"external_id": "planted-x"}, format="json")
    fresh = stranger.post("/api/sessions/", {"external_id": "fresh"}, format="json")
    assert made.status_code == fresh.status_code == 201
    assert set(made.json()) == set(fresh.json())
    assert made.json()["title"] == ""
    assert Session.objects.get(external_id="planted-x", owner=ada).title == "plantedtitle"


def test_another_sessions_message_is_not_under_ones_own(planted, stranger, bob):
    own = Talk(bob, "One", session_id="own")
    answer = stranger.get(f"{own.url}messages/", {"around": str(planted.messages[0].pk)})
    assert {one["session"] for one in answer.json()["results"]} <= {str(own.session.id)}
    assert seen_in(body_of(answer)) == set()
    # A message's own session decides, whatever somebody writes before it.
    assert stranger.get(f"{own.url}messages/{planted.messages[0].pk}/").status_code == 404


def test_another_sessions_agent_is_not_under_ones_own(planted, stranger, bob):
    Talk(bob, "One", session_id="own")
    store = SessionStore(owner=bob)
    plain = store.create("plain")
    url = f"/api/sessions/{plain.id}/"
    for name in ("concierge", str(planted.agent.pk)):
        theirs = answered(stranger, "get", f"{url}agents/{name}/")
        assert theirs == answered(stranger, "get", f"{url}agents/never/")
        assert theirs[0] == 404
        said = answered(stranger, "get", f"{url}messages/", {"agent": name})
        assert said == answered(stranger, "get", f"{url}messages/", {"agent": "never"})
    assert stranger.get(f"{url}multi-agents/graph/").status_code == 404


def test_a_cursor_of_another_user_or_conversation_is_refused(planted, api, stranger, bob):
    own = Talk(bob, "One", "Two", session_id="own")
    url = planted.url("sessions/<agent_sessions_uuid:session>/messages/")
    cursor = api.get(url, {"limit": 1}).json()["next"].partition("cursor=")[2]
    theirs = stranger.get(f"{url}?cursor={cursor}")
    assert theirs.status_code == 404
    assert stranger.get(f"{own.url}messages/?cursor={cursor}").status_code == 400
    listed = api.get("/api/sessions/", {"limit": 1})
    assert listed.json()["next"] is None
    Talk(bob, session_id="second")
    cursor = stranger.get("/api/sessions/", {"limit": 1}).json()["next"].partition("cursor=")[2]
    assert api.get(f"/api/sessions/?cursor={cursor}").status_code == 400


def test_media_of_a_strangers_message_are_as_missing_ones(planted, api, stranger):
    url = planted.url("messages/<agent_sessions_uuid:message>/media/")
    assert body_of(api.get(url, {"path": IMAGE})).encode("latin-1", "replace")[1:4] == PIXEL[1:4]
    for path in (IMAGE, '["content", 0]', "[]"):
        theirs = answered(stranger, "get", url, {"path": path})
        assert theirs == answered(stranger, "get", missing(planted, url), {"path": path})
        assert theirs[0] == 404


def test_a_session_of_the_same_name_in_another_namespace_is_another(ada, bob, api, stranger):
    SessionStore(owner=ada, namespace="one").create("same", title="of Ada")
    theirs = SessionStore(owner=bob, namespace="two").create("same", title="of Bob")
    third = SessionStore(owner=ada, namespace="two/same").create("x", title="of Ada too")
    rows = api.get("/api/sessions/", {"session_id": "same"}).json()["results"]
    assert [row["title"] for row in rows] == ["of Ada"]
    url = f"/api/sessions/{rows[0]['id']}/"
    assert api.patch(url, {"title": "New"}, format="json").json()["title"] == "New"
    assert api.delete(url).status_code == 204
    assert set(Session.objects.values_list("pk", flat=True)) == {theirs.id, third.id}
    assert Session.objects.get(pk=theirs.id).title == "of Bob"


def test_a_view_of_one_namespace_reaches_no_other(ada, planted):
    class OfSupport(SessionViewSet):
        namespace = "support"

    own = SessionStore(owner=ada, namespace="support").create("own")
    view = OfSupport.as_view({"get": "retrieve", "delete": "destroy"})
    for method, code in (("get", 200), ("delete", 204)):
        request = getattr(APIRequestFactory(), method)("/")
        force_authenticate(request, ada)
        assert view(request, session=str(planted.session.pk)).status_code == 404
        assert view(request, session=str(own.id)).status_code == code


@pytest.mark.parametrize("key", [None, 0])
def test_a_user_without_a_key_owns_nothing(planted, key):
    if key == 0 and connection.vendor == "mysql":
        pytest.skip("Django lets nothing have the key 0 there")
    Session.objects.create(session_id="nobodys", owner=None)
    nobody = get_user_model()(pk=key, username="nobody")
    client = APIClient()
    client.force_authenticate(nobody)
    assert client.get("/api/sessions/").json()["results"] == []
    for row in Session.objects.all():
        assert client.get(f"/api/sessions/{row.pk}/").status_code == 404
    # Whoever lets anonymous people in lets them reach nothing all the same.
    client.force_authenticate(AnonymousUser())
    assert client.get("/api/sessions/").status_code in (401, 403)


def test_anonymous_people_reach_nothing_where_a_project_lets_them_in(planted):
    class Open(SessionViewSet):
        permission_classes = []

    Session.objects.create(session_id="nobodys", owner=None)
    view = Open.as_view({"get": "list"})
    request = APIRequestFactory().get("/")
    assert view(request).data["results"] == []
    detail = Open.as_view({"get": "retrieve"})
    for row in Session.objects.all():
        assert detail(APIRequestFactory().get("/"), session=str(row.pk)).status_code == 404


@pytest.mark.parametrize(
    "key", ["x", "0", "%00", "null", "*", "..%2F", "1' OR '1'='1", "{}", "٣", "a" * 5000]
)
def test_what_is_no_key_is_as_a_missing_one(api, planted, key):
    for url in (f"/api/sessions/{key}/", f"/api/messages/{key}/", f"/api/sessions/{key}/messages/"):
        assert api.get(url).status_code == 404


def test_the_same_key_in_another_spelling_opens_only_ones_own(planted, api, stranger):
    for key in (planted.session.pk.hex, f"urn:uuid:{planted.session.pk}"):
        assert stranger.get(f"/api/sessions/{key}/").status_code == 404
        assert api.get(f"/api/sessions/{key}/").status_code in (200, 404)


def test_a_message_that_was_popped_is_as_one_that_never_was(ada, api, trip):
    url = trip.messages[-1]
    assert api.get(url).status_code == 200
    SessionMessage.objects.order_by("-message_id")[0].delete()
    key = url.split("/")[-2]
    gone, never = (
        answered(api, "get", url),
        answered(api, "get", f"/api/messages/{beside(UUID(key))}/"),
    )
    assert gone == never


def test_who_may_reach_everybody_is_refused_what_does_not_exist_alike(planted, bob):
    client = client_of(bob)
    url = planted.url("sessions/<agent_sessions_uuid:session>/")
    theirs = answered(client, "get", url, {"scope": "all"})
    assert theirs == answered(client, "get", missing(planted, url), {"scope": "all"})
