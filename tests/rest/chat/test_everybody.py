"""Owner, writer, reader, former reader, team, staff, stranger, link and nobody × each chat URL."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission
from django.db.models import Q
from django.urls import include, path
from django.utils import timezone
from rest_framework.test import APIClient

from django_agent_sessions.governance import sharing
from django_agent_sessions.models import AuditEvent, Session, SessionMessage, ShareLink
from django_agent_sessions.models.access import AccessRule
from django_agent_sessions.models.permissions import SessionPermission
from django_agent_sessions.rest.chat.ai_sdk import chat_urls
from django_agent_sessions.rest.chat.assistant_ui import urls as assistant_ui
from django_agent_sessions.values.ids import new_id
from tests.rest.conftest import Talk
from tests.rest.planted import body_of, rows

from .ai_sdk.urls import StrandsTools

pytestmark = pytest.mark.django_db

AI_SDK = chat_urls(StrandsTools, "chat")
urlpatterns = [*AI_SDK, path("", include("django_agent_sessions.rest.chat.assistant_ui.urls"))]

READ, WRITE, OWN = "read", "write", "own"
MAY = {"owner": {READ, WRITE, OWN}, "writer": {READ, WRITE}, "reader": {READ}}
"""What each may do in a chat; everybody else may do nothing."""

PEOPLE = [
    *MAY,
    *("former reader", "team", "staff", "stranger", "link", "expired link", "nobody"),
]
PARTS = [{"type": "text", "text": "And Porto?"}]
CONTENT = {"role": "user", "parts": PARTS}
REPLACEMENT = {
    "parent_id": None,
    "format": "ai-sdk/v6",
    "content": {"id": "{mine}", "role": "user", "parts": [{"type": "text", "text": "Forged"}]},
}


class Team(AccessRule):
    """Staff do everything in the sessions of their groups."""

    def sessions(self, user: Any, action: SessionPermission) -> Any:
        granted = super().sessions(user, action)
        return Q(owner__groups__in=user.groups.all()) if granted is None else granted


@dataclass(frozen=True)
class Ask:
    route: str
    method: str
    path: str
    needs: str
    body: Any = None
    shows: bool = False
    writes: bool = False


ASKS = [
    Ask("chat-messages", "get", "/chat/{key}/messages", READ, shows=True),
    Ask("chat-stream", "get", "/chat/{key}/stream", READ),
    Ask("chat-stop", "post", "/chat/{key}/stop", WRITE),
    Ask(
        "chat",
        "post",
        "/chat",
        WRITE,
        {"id": "{key}", "message": {"id": "m1", **CONTENT}},
        writes=True,
    ),
    Ask("thread", "get", "/v1/threads/{key}", READ),
    Ask("messages", "get", "/v1/threads/{key}/messages", READ, shows=True),
    Ask(
        "messages",
        "post",
        "/v1/threads/{key}/messages",
        WRITE,
        {"parent_id": None, "format": "ai-sdk/v6", "content": CONTENT},
        writes=True,
    ),
    Ask(
        "feedback",
        "post",
        "/v1/threads/{key}/messages/{message}/feedback",
        WRITE,
        {"type": "positive"},
        writes=True,
    ),
    Ask("message", "put", "/v1/threads/{key}/messages/{mine}", OWN, {"content": CONTENT}),
    Ask("messages", "post", "/v1/threads/{key}/messages", OWN, REPLACEMENT, writes=True),
    Ask(
        "messages",
        "delete",
        "/v1/threads/{key}/messages",
        OWN,
        {"message_ids": ["{mine}"]},
        writes=True,
    ),
    Ask(
        "title",
        "post",
        "/v1/runs/stream",
        OWN,
        {"thread_id": "{key}", "assistant_id": "system/thread_title", "messages": []},
    ),
    Ask("thread", "put", "/v1/threads/{key}", OWN, {"title": "Mine"}, writes=True),
    Ask("thread", "delete", "/v1/threads/{key}", OWN, writes=True),
]
OF_NO_SESSION = {("threads", "get"), ("threads", "post")}


def test_each_url_and_method_of_the_chats_is_asked():
    patterns: list[Any] = [*AI_SDK, *assistant_ui.urlpatterns]
    offered = {
        (pattern.name, method)
        for pattern in patterns
        for method in pattern.callback.view_initkwargs.get("http_method_names")
        or ("get", "post", "put", "patch", "delete")
        if method != "options" and _has(pattern.callback.view_class, method)
    }
    assert {(one.route, one.method) for one in ASKS} | OF_NO_SESSION == offered


def _has(view: Any, method: str) -> bool:
    return issubclass(view, StrandsTools) or hasattr(view, method)


@pytest.fixture
def client(trip, ada, bob, settings, request) -> Any:
    settings.ROOT_URLCONF = __name__
    settings.AGENT_SESSIONS = {"SHARE_LINKS": True}
    who, key, client = request.param, trip.session.id, APIClient()
    if who in ("reader", "writer", "former reader"):
        sharing.add_participant(key, bob, who.split()[-1])
    if who == "former reader":
        sharing.remove_participant(key, bob)
    if who == "team":
        settings.AGENT_SESSIONS = {"ACCESS": f"{__name__}.Team"}
        group = Group.objects.create(name="team")
        group.user_set.add(ada, bob)
    if who in ("team", "staff"):
        type(bob).objects.filter(pk=bob.pk).update(is_staff=True)
    if who == "staff":
        bob.user_permissions.set(Permission.objects.all())
    if who in ("link", "expired link"):
        _, token = sharing.create_link(key, timedelta(seconds=60))
        if who == "expired link":
            ShareLink.objects.update(expires_at=timezone.now())
        return APIClient(HTTP_AUTHORIZATION=f"Bearer {token}", QUERY_STRING=f"token={token}")
    if who != "nobody":
        client.force_login(ada if who == "owner" else type(bob).objects.get(pk=bob.pk))
    return client


def said_by_client(trip: Talk, ada: Any) -> str:
    """A message of Ada's client, which the client may change."""
    client = APIClient()
    client.force_login(ada)
    body = {"parent_id": None, "format": "ai-sdk/v6", "content": CONTENT}
    answer = client.post(f"/v1/threads/{trip.session.id}/messages", body, format="json")
    return str(answer.json()["message_id"])


@pytest.mark.parametrize("client", PEOPLE, indirect=True)
@pytest.mark.parametrize("one", ASKS, ids=lambda one: f"{one.method} {one.route} {one.needs}")
def test_a_chat_is_open_to_whom_it_is_shared_with(trip, ada, client, one, request):
    mine = said_by_client(trip, ada) if "{mine}" in f"{one.path}{one.body}" else ""
    who = request.node.callspec.params["client"]
    allowed = one.needs in MAY.get(who, ())
    named = {
        "{key}": str(trip.session.id),
        "{mine}": mine,
        "{message}": SessionMessage.objects.get(pk=trip.messages[0].split("/")[-2]).pk.hex,
    }
    url, body = one.path, json.dumps(one.body)
    for name, value in named.items():
        url, body = url.replace(name, value), body.replace(name, value)
    before, trail = rows(), AuditEvent.objects.count()
    answer = send(client, one.method, url, body)
    text = body_of(answer)
    assert ("Lisbon" in text) == (allowed and one.shows)
    if allowed:
        assert answer.status_code < 300, text
        assert (rows() != before) == one.writes
        return
    never = str(new_id())
    key = str(trip.session.id)
    missing = send(client, one.method, url.replace(key, never), body.replace(key, never))
    assert AuditEvent.objects.count() == trail
    assert rows() == before
    if who == "reader" and one.needs != READ:
        assert answer.status_code in ((403,) if one.route == "chat" else (403, 404))
    else:
        assert (answer.status_code, text) == (missing.status_code, body_of(missing))


def send(client: Any, method: str, url: str, body: str) -> Any:
    sent = {} if body == "null" else {"data": body, "content_type": "application/json"}
    return getattr(client, method)(url, **sent)


@pytest.mark.parametrize("client", PEOPLE, indirect=True)
def test_threads_are_listed_to_their_owner_and_made_anew_by_others(trip, client, request):
    Session.objects.update(external_id="ext", title="Adas title")
    who = request.node.callspec.params["client"]
    listed = client.get("/v1/threads")
    made = client.post("/v1/threads", {"external_id": "ext"}, format="json")
    assert ("Adas title" in body_of(listed)) == (who == "owner")
    logged_in = who not in ("nobody", "link", "expired link")
    assert (listed.status_code == 200) == logged_in
    if logged_in:
        assert (made.json()["thread_id"] == str(trip.session.id)) == (who == "owner")
    else:
        assert made.status_code in (401, 403)


@pytest.mark.parametrize("url", ["/v1/threads", "/api/sessions/"])
def test_a_clients_id_hides_no_session_whose_key_it_is(trip, bob, settings, url):
    settings.ROOT_URLCONF = "tests.rest.whole_site"
    key, client = str(trip.session.id), APIClient()
    client.force_login(bob)
    reads = [f"/v1/threads/{key}", f"/api/sessions/{key}/"]
    made = client.post(url, {"external_id": key, "title": "Mine"}, format="json")
    assert made.status_code == 201
    assert [client.get(one).status_code for one in reads] == [404, 404]

    sharing.add_participant(trip.session.id, bob, "reader")
    for one in reads:
        assert key in body_of(client.get(one))
        assert "Mine" not in body_of(client.get(one))
    assert "Lisbon" in body_of(client.get(f"/chat/{key}/messages"))
