"""What a project may change: views, serializers, paginators, permissions and the router."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import include, path
from rest_framework import serializers
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import IsAuthenticated
from rest_framework.test import APIClient

from django_agent_sessions.models.permissions import SessionPermission
from django_agent_sessions.rest.pagination import SessionPagination
from django_agent_sessions.rest.routers import SessionRouter
from django_agent_sessions.rest.serializers.messages import MessageSerializer
from django_agent_sessions.rest.serializers.sessions import SessionRowSerializer
from django_agent_sessions.rest.viewsets import AgentViewSet, ConversationViewSet, SessionViewSet
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.owners import EVERYBODY

from .conftest import Talk

pytestmark = [pytest.mark.django_db, pytest.mark.urls(__name__)]


class Row(SessionRowSerializer):
    shouted = serializers.SerializerMethodField()

    class Meta(SessionRowSerializer.Meta):
        fields = [*SessionRowSerializer.Meta.fields, "shouted"]

    def get_shouted(self, session) -> str:
        return str(session.title).upper()


class Short(SessionPagination):
    default_limit = 2


class NotOnMondays(IsAuthenticated):
    def has_permission(self, request, view) -> bool:
        return super().has_permission(request, view) and "X-Monday" not in request.headers


class Sessions(SessionViewSet):
    owner_may = frozenset({SessionPermission.READ})
    namespace = "shop"
    permission_classes = [NotOnMondays]
    pagination_class = Short
    row_serializer_class = Row


class Agents(AgentViewSet):
    shows_state = True


class Message(MessageSerializer):
    def to_representation(self, instance):
        return {**super().to_representation(instance), "run_id": None, "mine": True}


class Conversations(ConversationViewSet):
    serializer_class = Message


class Router(SessionRouter):
    sessions = Sessions
    agents = Agents
    conversations = Conversations


urlpatterns = [path("api/", include((Router().urls, "agent_sessions_api")))]


@pytest.fixture
def shop(ada):
    for number in range(3):
        SessionStore(owner=ada, namespace="shop").create(f"s{number}", title="hello")
    SessionStore(owner=ada).create("elsewhere")


def test_a_project_chooses_rows_pages_and_the_namespace(api, shop):
    page = api.get("/api/sessions/").json()
    assert [row["shouted"] for row in page["results"]] == ["HELLO", "HELLO"]
    rest = api.get(page["next"]).json()
    assert [row["session_id"] for row in rest["results"]] == ["s0"]


def test_a_session_that_is_made_is_in_the_namespace(api):
    made = api.post("/api/sessions/", {}, format="json").json()
    assert (
        SessionStore(owner=EVERYBODY, namespace="shop").get(made["session_id"]).namespace == "shop"
    )


def test_a_project_says_what_owners_may_do(api, shop):
    url = f"/api/sessions/{api.get('/api/sessions/').json()['results'][0]['id']}/"
    assert api.get(url).status_code == 200
    assert api.patch(url, {"title": "x"}, format="json").status_code == 404
    assert api.delete(url).status_code == 404
    assert api.get(f"{url}export/").status_code == 404


def test_a_project_says_who_may_call(api, shop):
    assert api.get("/api/sessions/", headers={"X-Monday": "1"}).status_code == 403


def test_a_project_shows_states_and_messages_as_it_wants(api, ada):
    talk = Talk(ada, "Hello")
    agent = api.get(f"{talk.url}agents/concierge/").json()
    assert agent["state"] == {}
    assert [message["mine"] for message in api.get(f"{talk.url}messages/").json()["results"]] == [
        True
    ]


class Tokens(BaseAuthentication):
    """Refuses as packages for tokens do: with a dict instead of a text."""

    def authenticate(self, request):
        detail: Any = {
            "detail": "The token is too old.",
            "code": "token_not_valid",
            "messages": [{}],
        }
        raise AuthenticationFailed(detail)

    def authenticate_header(self, request) -> str:
        return "Bearer"


def test_an_authentication_says_what_it_wants_in_words(monkeypatch):
    monkeypatch.setattr(Sessions, "authentication_classes", [Tokens])
    answer = APIClient().get("/api/sessions/")
    assert answer.status_code == 401
    body = answer.json()
    assert body["detail"] == body["message"] == "The token is too old."
    assert body["code"] == "authentication_failed"
