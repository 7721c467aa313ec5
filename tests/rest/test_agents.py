"""Agents and orchestrators through the API: who they are, and what they keep for whom."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from rest_framework.test import APIRequestFactory, force_authenticate

from django_agent_sessions.models import AuditEvent, SessionAgent
from django_agent_sessions.rest.routers import SessionRouter
from django_agent_sessions.rest.viewsets import AgentViewSet, MultiAgentViewSet
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.records import AgentState
from tests.admin.people import grant

from .conftest import Talk, client_of
from .planted import INTERNAL, STATES, Planted

pytestmark = pytest.mark.django_db

FIGURES = {"id", "agent_id", "dialect", "created_at", "updated_at"}


def url(planted: Planted, rest: str) -> str:
    return f"/api/sessions/{planted.session.pk}/{rest}"


def test_agents_are_listed_the_oldest_first_without_what_they_keep(ada, api):
    talk = Talk(ada)
    for name in ("writer", "critic"):
        talk.store.agents.open(talk.session, name, dialect="openai", data=AgentState({"a": "kept"}))
    answer = api.get(f"{talk.url}agents/")
    found = answer.json()["results"]
    assert [row["agent_id"] for row in found] == ["concierge", "writer", "critic"]
    assert [row["dialect"] for row in found] == ["strands", "openai", "openai"]
    assert {key for row in found for key in row} == FIGURES
    assert "kept" not in answer.content.decode()
    assert api.get(talk.url).json()["agents"] == found


def test_agents_and_orchestrators_come_in_pages_that_lead_to_all_of_them(ada, api):
    talk = Talk(ada)
    for number in range(4):
        talk.store.agents.open(talk.session, f"agent-{number}", dialect="strands")
        talk.store.multi_agents.create(talk.session, f"graph-{number}", {})
    for what in ("agents", "multi-agents"):
        whole = api.get(f"{talk.url}{what}/").json()
        assert (whole["next"], whole["previous"]) == (None, None)
        path: str | None = f"{talk.url}{what}/?limit=2"
        found: list[Any] = []
        while path:
            last = api.get(path).json()
            found, path = found + last["results"], last["next"]
        assert found == whole["results"]
        assert len(found) >= 4
        before = api.get(last["previous"]).json()["results"]
        assert before + last["results"] == found[-len(before + last["results"]) :]
        after = api.get(f"{talk.url}{what}/", {"after": found[0]["id"]}).json()["results"]
        assert after == found[1:]
        for wrong in ({"agent_id": "agent-1"}, {"limit": "1001"}, {"after": str(talk.session.id)}):
            assert api.get(f"{talk.url}{what}/", wrong).status_code == 400


def test_orchestrators_are_listed_without_what_they_keep(planted, api):
    found = api.get(url(planted, "multi-agents/")).json()["results"]
    assert [(row["multi_agent_id"], row["kind"]) for row in found] == [("graph", "graph")]
    assert "plantednode" not in json.dumps(found)


def test_owners_see_no_state_unless_they_have_the_permission(planted, ada):
    for rest in ("agents/concierge/", "multi-agents/graph/"):
        assert "state" not in client_of(ada).get(url(planted, rest)).json()
    grant(ada, "view_sessionagent")
    found = client_of(ada).get(url(planted, "agents/concierge/")).json()
    assert found["state"] == {"a": "plantedstate"}
    assert found["conversation_manager_state"] == {"summary": "plantedsummary"}
    # What the SDK keeps for itself is in the export, and in no view.
    assert INTERNAL not in json.dumps(found)
    graph = client_of(ada).get(url(planted, "multi-agents/graph/")).json()
    assert graph["state"] == {"node": "plantednode"}


def test_a_project_may_show_states_to_all_who_reach_the_session(planted, ada, bob):
    class Shown(AgentViewSet):
        shows_state = True

    class ShownGraphs(MultiAgentViewSet):
        shows_state = True

    class Router(SessionRouter):
        agents = Shown
        multi_agents = ShownGraphs

    patterns: list[Any] = Router().urls
    named = {pattern.name: pattern.callback for pattern in patterns}
    key = str(planted.session.pk)
    for name, given in (("agent-detail", "concierge"), ("multi-agent-detail", "graph")):
        view: Any = named[name]
        argument = "agent" if name == "agent-detail" else "multi_agent"
        for user, code in ((ada, 200), (bob, 404)):
            request = APIRequestFactory().get("/")
            force_authenticate(request, user)
            answer = view(request, session=key, **{argument: given})
            assert answer.status_code == code
            assert ("state" in answer.data) == (code == 200)


def test_a_state_that_was_seen_by_others_is_recorded_as_such(planted, bob):
    for one in ("view_session", "read_transcript", "view_sessionagent"):
        grant(bob, one)
    answer = client_of(bob).get(url(planted, "agents/concierge/"), {"scope": "all"})
    assert answer.json()["state"] == {"a": "plantedstate"}
    event = AuditEvent.objects.get(action="read")
    assert (event.actor, event.target, event.session) == (
        "bob",
        planted.agent.pk,
        planted.session.pk,
    )
    assert event.details["view"] == "state"
    assert not any(state in str(event.details) for state in STATES)


@pytest.mark.parametrize(
    "name",
    ["a/b", "a//b", "a b", "ä", "%41", "a?b=c", "a#b", "<b>", "' OR 1=1", "agents", "messages/x"],
)
def test_an_id_is_any_text(ada, api, name):
    talk = Talk(ada)
    talk.store.agents.open(talk.session, name, dialect="strands")
    found = api.get(f"{talk.url}agents/{quote(name, safe='/')}/")
    assert found.status_code == 200
    assert found.json()["agent_id"] == name
    store = SessionStore(owner=ada)
    store.multi_agents.create(talk.session, name, {}, kind="swarm")
    found = api.get(f"{talk.url}multi-agents/{quote(name, safe='/')}/")
    assert found.json()["multi_agent_id"] == name


@pytest.mark.parametrize("name", ["Concierge", "concierge%20", "concierg", "%00", "%ED%A0%80", "."])
def test_an_id_is_exact(ada, api, name):
    talk = Talk(ada)
    assert api.get(f"{talk.url}agents/{name}/").status_code == 404


def test_a_state_with_anything_in_it_is_shown(ada):
    state = {"bytes": b"\xff", "nul": "a\x00b", "half": "\ud800", "number": 10**400, "": {"": []}}
    talk = Talk(ada)
    talk.store.agents.open(talk.session, "odd", dialect="strands", data=AgentState(state))
    grant(ada, "view_sessionagent")
    answer = client_of(ada).get(f"{talk.url}agents/odd/")
    assert answer.status_code == 200
    shown = answer.json()["state"]
    assert shown["bytes"] == {"bytes": 1}
    assert shown["number"] == 10**400
    assert "\x00" not in shown["nul"]


def test_a_state_that_cannot_be_read_hides_nothing_else(ada):
    talk = Talk(ada, "Hello")
    grant(ada, "view_sessionagent")
    with connection.cursor() as cursor:
        quoted = connection.ops.quote_name
        table, column = quoted(SessionAgent._meta.db_table), quoted("state")
        cursor.execute(f"UPDATE {table} SET {column} = %s", ['{"a": "brok'])
    client = client_of(get_user_model().objects.get(pk=ada.pk))
    for rest in ("", "agents/", "agents/concierge/", "messages/", "export/?as=jsonl"):
        answer = client.get(f"{talk.url}{rest}")
        assert answer.status_code == 200, rest
    assert client.get(f"{talk.url}messages/").json()["results"][0]["parts"][0]["text"] == "Hello"
