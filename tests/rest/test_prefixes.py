"""The API below a path that names something of the project's own: a version, a tenant."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import include, path
from rest_framework.versioning import NamespaceVersioning, URLPathVersioning

from django_agent_sessions.rest.base import SessionAPI

from .conftest import Talk

pytestmark = [pytest.mark.django_db, pytest.mark.urls(__name__)]

PNG = b"\x89PNG\r\n\x1a\n" + bytes(30)
_API = "django_agent_sessions.rest.urls"
urlpatterns = [
    path("<str:version>/of/<str:tenant>/", include(_API)),
    path("named/", include(_API, namespace="v1")),
]


@pytest.fixture
def versioned(monkeypatch):
    def versioned(kind: type[Any]) -> None:
        made = type("Versioning", (kind,), {"allowed_versions": ["v1"]})
        monkeypatch.setattr(SessionAPI, "versioning_class", made)

    return versioned


def test_everything_is_there_below_a_version_and_a_tenant(api, ada, versioned):
    versioned(URLPathVersioning)
    talk = Talk(ada, "Where to?")
    picture = {"image": {"format": "png", "source": {"bytes": PNG}}}
    talk.say({"role": "user", "content": [picture]})
    base = "/v1/of/acme/"
    session = f"{base}sessions/{talk.session.id}/"
    first, second = api.get(f"{session}messages/").json()["results"]
    agent = f"{base}agents/{talk.agent.id}/"
    for url in (
        f"{base}sessions/",
        session,
        f"{session}agents/",
        f"{session}agents/concierge/",
        f"{session}usage/",
        f"{session}export/",
        f"{base}messages/{first['id']}/",
        f"{agent}branches/",
        f"{agent}branches/0/",
        f"{agent}branches/0/messages/",
        f"{agent}branches/compare/",
        f"{agent}snapshots/",
    ):
        assert api.get(url).status_code == 200, url
    assert api.head(f"{session}events/").status_code == 200
    assert api.options(session).status_code == 200
    assert api.patch(session, {"title": "New"}, format="json").json()["title"] == "New"
    assert api.post(f"{agent}rewind/", {"to": 0}, format="json").status_code == 200
    url = second["parts"][0]["url"]
    assert url.startswith(f"{base}messages/{second['id']}/media/")
    assert b"".join(api.get(url)) == PNG
    made = api.post(f"{session}fork/", {}, format="json")
    assert made["Location"].startswith(f"http://testserver{base}sessions/")
    # Which version it is decides the project's class, as elsewhere.
    assert api.get(f"/v9/of/acme/sessions/{talk.session.id}/").status_code == 404
    assert api.delete(session).status_code == 204


def test_a_version_may_be_the_namespace_of_the_urls(api, ada, versioned):
    versioned(NamespaceVersioning)
    talk = Talk(ada, "Where to?")
    assert api.get(f"/named/sessions/{talk.session.id}/").status_code == 200
    assert api.get(f"/v1/of/acme/sessions/{talk.session.id}/").status_code == 404
