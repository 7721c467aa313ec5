"""Classes of the project that the settings put in place of those of the API."""

from __future__ import annotations

import importlib
import json
from typing import Any

import pytest
from django.urls import clear_url_caches, set_urlconf
from rest_framework import serializers

from django_agent_sessions.checks import check_classes
from django_agent_sessions.rest import urls as api_urls
from django_agent_sessions.rest.routers import SessionRouter
from django_agent_sessions.rest.serializers import SessionRowSerializer, SessionSerializer
from django_agent_sessions.rest.viewsets import SessionViewSet
from django_agent_sessions.store import SessionStore

from .openapi import document, written

pytestmark = pytest.mark.django_db


class Row(SessionRowSerializer):
    loud = serializers.SerializerMethodField()
    username = serializers.CharField(source="owner.username", read_only=True)

    class Meta(SessionRowSerializer.Meta):
        fields = [*SessionRowSerializer.Meta.fields, "loud", "username"]

    def get_loud(self, session) -> str:
        return str(session.title).upper()

    @classmethod
    def setup_eager_loading(cls, sessions):
        return sessions.select_related("owner")


class Detail(SessionSerializer):
    team = serializers.CharField(source="metadata.team", read_only=True)

    class Meta(SessionSerializer.Meta):
        fields = [*SessionSerializer.Meta.fields, "team"]


class Short(SessionViewSet):
    http_method_names = ["get"]


class Router(SessionRouter):
    sessions = Short


CHOSEN = {
    "SESSION_ROW_SERIALIZER": f"{__name__}.Row",
    "SESSION_SERIALIZER": f"{__name__}.Detail",
}


def test_the_settings_choose_the_serializers(api, ada, settings, django_assert_num_queries):
    settings.AGENT_SESSIONS = CHOSEN
    store = SessionStore(owner=ada)
    for number in range(3):
        store.create(f"s{number}", title="hello", metadata={"team": "blue"})

    # Two are of the login.
    with django_assert_num_queries(3):
        rows = api.get("/api/sessions/").json()["results"]
    assert [(row["loud"], row["username"]) for row in rows] == [("HELLO", "ada")] * 3
    url = f"/api/sessions/{rows[0]['id']}/"
    assert api.get(url).json()["team"] == "blue"
    assert api.patch(url, {"title": "x"}, format="json").json()["team"] == "blue"
    made = api.post("/api/sessions/", {"metadata": {"team": "red"}}, format="json").json()
    assert made["team"] == "red"


def test_the_openapi_document_describes_the_chosen_serializers(settings):
    settings.AGENT_SESSIONS = CHOSEN
    made = json.loads(written(document()))

    schemas = made["components"]["schemas"]
    assert {"loud", "username"} <= schemas["Row"]["properties"].keys()
    assert "team" in schemas["Detail"]["properties"]
    assert "Session" not in schemas


def test_the_settings_choose_the_router(api, ada, settings):
    SessionStore(owner=ada).create("s")
    settings.AGENT_SESSIONS = {"ROUTER": f"{__name__}.Router"}
    try:
        importlib.reload(api_urls)
        patterns: list[Any] = api_urls.urlpatterns
        [found] = [url for url in patterns if url.name == "session-list"]
        assert found.callback.cls is Short
    finally:
        settings.AGENT_SESSIONS = {}
        importlib.reload(api_urls)
        clear_url_caches()
        set_urlconf(None)


def test_a_router_that_cannot_be_imported_leaves_the_api_without_sessions(settings):
    settings.AGENT_SESSIONS = {"ROUTER": f"{__name__}.Missing"}
    try:
        importlib.reload(api_urls)
        patterns: list[Any] = api_urls.urlpatterns
        assert [url.name for url in patterns] == ["schema"]
    finally:
        settings.AGENT_SESSIONS = {}
        importlib.reload(api_urls)
        clear_url_caches()
        set_urlconf(None)


@pytest.mark.parametrize(
    ("key", "path", "wrong"),
    [
        ("ROUTER", f"{__name__}.Missing", "cannot be imported"),
        ("ROUTER", f"{__name__}.Short", "not a subclass of SessionRouter"),
        ("SESSION_SERIALIZER", f"{__name__}.Row", "not a subclass of SessionSerializer"),
        ("SESSION_ROW_SERIALIZER", f"{__name__}.CHOSEN", "not a subclass"),
        ("SESSION_ADMIN", "django.contrib.admin.ModelAdmin", "not a subclass of SessionAdmin"),
    ],
)
def test_a_wrong_class_is_an_error_of_the_system_check(settings, key, path, wrong):
    settings.AGENT_SESSIONS = {key: path}
    [problem] = check_classes(None)

    assert problem.id == "agent_sessions.E016"
    assert wrong in problem.msg
    assert str(problem.hint).startswith("Set it to the dotted path of a subclass of")
    settings.AGENT_SESSIONS = CHOSEN
    assert check_classes(None) == []
