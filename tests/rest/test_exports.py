"""Exports through the API: the whole conversation as a file, for whoever may have it, recorded."""

from __future__ import annotations

import json
from typing import Any

import pytest
from rest_framework.test import APIRequestFactory, force_authenticate

from django_agent_sessions.content import exact_json
from django_agent_sessions.models import AuditEvent, Session
from django_agent_sessions.models.permissions import SessionPermission
from django_agent_sessions.rest.viewsets import SessionViewSet
from django_agent_sessions.store import SessionStore
from tests.admin.people import grant
from tests.admin.transcripts import said

from .conftest import Talk, client_of
from .planted import GONE, INTERNAL, SAID, STATES, body_of, plant

pytestmark = pytest.mark.django_db


def exported(client: Any, url: str, form: str, **query: Any) -> Any:
    return client.get(f"{url}export/", {"as": form, **query})


def test_markdown_is_a_download_for_people(trip, api):
    answer = exported(api, trip.url, "markdown")
    text = body_of(answer)
    assert answer["Content-Type"] == "text/markdown; charset=utf-8"
    assert answer["Content-Disposition"] == 'attachment; filename="trip.md"'
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert "no-store" in answer["Cache-Control"]
    assert text.startswith("# A trip\n\n- Session: trip\n")
    assert text.index("Where to?") < text.index("To Lisbon.") < text.index("Thanks.")
    assert body_of(api.get(f"{trip.url}export/")) == text


def test_json_lines_are_what_was_stored(trip, api):
    answer = exported(api, trip.url, "jsonl")
    assert answer["Content-Type"] == "application/jsonl; charset=utf-8"
    assert answer["Content-Disposition"] == 'attachment; filename="trip.jsonl"'
    (line,) = body_of(answer).splitlines()
    found = json.loads(line)
    assert found["session"]["id"] == str(trip.session.id)
    messages = found["agents"][0]["messages"]
    assert [row["message"] for row in messages][1] == said("assistant", "To Lisbon.")


def test_json_lines_hold_states_for_whoever_may_see_them_only(ada):
    planted = plant(ada)
    url = planted.url("sessions/<agent_sessions_uuid:session>/")
    plain = body_of(exported(client_of(ada), url, "jsonl"))
    assert all(secret in plain for secret in SAID)
    assert not any(state in plain for state in (*STATES, INTERNAL))
    assert "state" not in json.loads(plain)["agents"][0]
    grant(ada, "view_sessionagent")
    whole = body_of(exported(client_of(ada), url, "jsonl"))
    assert all(state in whole for state in (*STATES, INTERNAL))


@pytest.mark.parametrize("form", ["markdown", "jsonl"])
def test_no_export_has_what_was_redacted(ada, form):
    planted = plant(ada)
    for one in ("view_sessionagent", "export"):
        grant(ada, one)
    answer = exported(client_of(ada), planted.url("sessions/<agent_sessions_uuid:session>/"), form)
    assert GONE not in body_of(answer)


@pytest.mark.parametrize("form", ["markdown", "jsonl"])
def test_every_export_is_recorded_that_of_owners_too(trip, api, form):
    body_of(exported(api, trip.url, form))
    event = AuditEvent.objects.get()
    assert (event.action, event.actor, event.session) == ("exported", "ada", trip.session.id)
    assert event.details["format"] == form
    assert event.details["via"] == "api"


def test_a_project_may_keep_exports_to_itself(trip, ada):
    class Strict(SessionViewSet):
        owner_may = frozenset(SessionViewSet.owner_may) - {SessionPermission.EXPORT}

    view = Strict.as_view({"get": "export"})
    request = APIRequestFactory().get("/")
    force_authenticate(request, ada)
    assert view(request, session=str(trip.session.id)).status_code == 404
    assert not AuditEvent.objects.exists()
    grant(ada, "export")
    force_authenticate(request, type(ada).objects.get(pk=ada.pk))
    assert view(request, session=str(trip.session.id)).status_code == 200


@pytest.mark.parametrize("form", ["", "html", "MARKDOWN", "../x", "jsonl,markdown"])
def test_another_format_is_an_error_that_names_it_and_is_not_recorded(trip, api, form):
    answer = exported(api, trip.url, form)
    assert answer.status_code == 400
    assert "as" in answer.json()["errors"]
    assert not AuditEvent.objects.exists()


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", 'a"b; filename=x.exe', "a\u202eb", "ä" * 50, "<b>", ".htaccess"]
)
def test_a_file_is_named_with_nothing_that_anybody_minds(ada, api, name):
    session = SessionStore(owner=ada).create(name)
    answer = exported(api, f"/api/sessions/{session.id}/", "jsonl")
    file = answer["Content-Disposition"].removeprefix("attachment; filename=").strip('"')
    assert file.endswith(".jsonl")
    assert file.removesuffix(".jsonl").replace("-", "").replace("_", "").isalnum()
    body_of(answer)


def test_a_long_conversation_comes_whole_and_in_order(ada, api):
    talk = Talk(ada)
    talk.store.append_many(talk.agent, [said("user", f"number {n:04}") for n in range(500)])
    text = body_of(exported(api, talk.url, "markdown"))
    places = [text.index(f"number {number:04}") for number in range(500)]
    assert places == sorted(places)
    found = exact_json.loads(body_of(exported(api, talk.url, "jsonl")))
    assert len(found["agents"][0]["messages"]) == 500


def test_an_export_is_of_one_session(ada, api, trip):
    Talk(ada, "in the other one", session_id="other")
    for form in ("markdown", "jsonl"):
        assert "in the other one" not in body_of(exported(api, trip.url, form))


def test_an_empty_session_is_exported_too(ada, api):
    session = SessionStore(owner=ada).create("empty")
    for form in ("markdown", "jsonl"):
        assert body_of(exported(api, f"/api/sessions/{session.id}/", form))
    assert Session.objects.count() == 1
