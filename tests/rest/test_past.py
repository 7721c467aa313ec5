"""Going back in time through the API: rewinds, branches and snapshots."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.core.cache import cache
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from django_agent_sessions.governance.legal_hold import hold
from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.models import (
    AuditEvent,
    Branch,
    Session,
    SessionAgent,
    SessionMessage,
    Snapshot,
)
from django_agent_sessions.models.fields import CorruptPayload
from django_agent_sessions.values.ids import new_id
from django_agent_sessions.values.records import AgentState
from tests.admin.people import grant
from tests.admin.transcripts import said

from .conftest import Talk, client_of

pytestmark = pytest.mark.django_db

WHO = 2
"""Django's session and the user, at each request."""

SAID = ["Where to?", "To Lisbon.", "My card is 4111 1111 1111 1111.", "Thanks."]
MOST = 2**31 - 1


@pytest.fixture
def url(trip: Talk) -> str:
    return f"/api/agents/{trip.agent.id}/"


def post(client: APIClient, url: str, data: Any = None, code: int = 200) -> Any:
    answer = client.post(url, json.dumps(data or {}), content_type="application/json")
    assert answer.status_code == code, answer.content
    return answer.json()


def texts(client: APIClient, url: str, number: int = 0) -> list[str]:
    found = client.get(f"{url}branches/{number}/messages/").json()["results"]
    assert [one["position"] for one in found] == list(range(len(found)))
    assert {one["branch"] for one in found} <= {number}
    return [one["parts"][0]["text"] for one in found]


def keys(number: int = 0) -> list[UUID]:
    rows = SessionMessage.objects.filter(branch=number).order_by("message_id")
    return list(rows.values_list("pk", flat=True))


# --- rewinds -----------------------------------------------------------------------------------


def test_a_rewind_does_not_replace_a_corrupt_state(api, url):
    corrupt = CorruptPayload('{"plantedsecret')
    SessionAgent.objects.update(state=corrupt)

    problem = post(api, f"{url}rewind/", {"to": 1}, 409)

    assert problem["code"] == "unreadable_state"
    assert "plantedsecret" not in str(problem)
    assert SessionAgent.objects.get().state == corrupt
    assert texts(api, url) == SAID


@pytest.mark.parametrize("by", ["id", "position"])
def test_a_rewind_keeps_what_was_said_later(api, trip, url, by):
    to = str(keys()[1]) if by == "id" else 1
    branch = post(api, f"{url}rewind/", {"to": to, "name": "Lisbon"})["branch"]
    assert (branch["number"], branch["name"], branch["kind"]) == (1, "Lisbon", "rewound")
    assert (branch["parent"], branch["start"], branch["length"]) == (0, 2, 4)
    assert texts(api, url) == SAID[:2]
    assert texts(api, url, 1) == SAID
    # The conversation, and how it ends, is the main branch's.
    shown = api.get(f"{trip.url}messages/").json()["results"]
    assert [one["parts"][0]["text"] for one in shown] == SAID[:2]
    assert api.get(trip.url).json()["last_text"]["text"] == SAID[1]
    # Asked again, there is nothing to do.
    assert post(api, f"{url}rewind/", {"to": to, "name": "Lisbon"}) == {"branch": None}
    assert AuditEvent.objects.filter(action="rewound").count() == 1


def test_everything_can_be_rewound_and_brought_back(api, trip, url):
    post(api, f"{url}rewind/", {"to": -1})
    assert texts(api, url) == []
    left = post(api, f"{url}branches/1/switch/")["branch"]
    assert (left["number"], left["length"]) == (2, 0)
    assert texts(api, url) == SAID
    assert [event.action for event in AuditEvent.objects.order_by("pk")] == ["rewound", "restored"]
    assert not any("isbon" in str(event.details) for event in AuditEvent.objects.all())


def test_no_way_back_in_time_counts_as_a_redaction(api, trip, url):
    def redactions() -> list[int]:
        listed = api.get("/api/sessions/").json()["results"]
        return [api.get(trip.url).json()["redactions"], *(one["redactions"] for one in listed)]

    snapshot = trip.store.snapshots.take(trip.agent)
    post(api, f"{url}rewind/", {"to": 1})
    post(api, f"{url}branches/1/switch/")
    post(api, f"{url}snapshots/{snapshot.id}/restore/")
    assert redactions() == [0, 0]
    redact(trip.session.id, Find("Lisbon"), reason="a ticket")
    post(api, f"{url}rewind/", {"to": 0})
    assert redactions() == [1, 1]
    row = Session.objects.get()
    assert row.redaction_epoch > row.redactions


@pytest.mark.parametrize(
    "to", [None, "", "x", -2, MOST + 1, 10**400, 1.5, True, [], {}, "1", "\x00", "0" * 5000]
)
def test_what_is_no_place_is_refused(api, trip, url, to):
    for path, name in (("rewind/", "to"), ("branches/", "at")):
        if path == "branches/" and to is None:
            continue
        problem = post(api, f"{url}{path}", {name: to}, 400)
        assert list(problem["errors"]) == [name]
    assert texts(api, url) == SAID
    assert not Branch.objects.exists()


def test_a_message_that_is_not_there_is_not_found(api, ada, bob, trip, url):
    mine = Talk(ada, "Another session", session_id="other")
    theirs = Talk(bob, "Another owner", session_id="theirs")
    second = trip.store.agents.open(trip.session, "second", dialect="strands")
    trip.store.append(second, said("user", "Another agent"))
    post(api, f"{url}branches/", {}, 201)
    places = [uuid4(), keys(1)[0], 4, MOST]
    for one in (mine.agent.id, theirs.agent.id, second.id):
        places.append(SessionMessage.objects.get(agent=one).pk)
    for place in places:
        to = place if isinstance(place, int) else str(place)
        # The agent is there, so that the answer names what is not.
        refused = post(api, f"{url}rewind/", {"to": to}, 404)
        assert (refused["code"], list(refused["errors"])) == ("not_found", ["to"])
        if place != keys(1)[0]:
            assert list(post(api, f"{url}branches/", {"at": to}, 404)["errors"]) == ["at"]
    assert texts(api, url) == SAID
    assert Branch.objects.count() == 1


# --- branches ----------------------------------------------------------------------------------


def test_branches_are_made_compared_switched_to_and_deleted(api, trip, url):
    made = post(api, f"{url}branches/", {"name": "Porto", "at": 1}, 201)
    assert (made["number"], made["kind"], made["length"]) == (1, "created", 2)
    like = post(api, f"{url}branches/", {"source": 1}, 201)
    assert (like["number"], like["name"], like["parent"]) == (2, "branch-2", 1)
    # A message says which branch it is of.
    other = post(api, f"{url}branches/", {"at": str(keys(1)[0])}, 201)
    assert (other["parent"], other["length"]) == (1, 1)
    found = api.get(f"{url}branches/compare/", {"right": 1}).json()
    assert found == {"common": 2, "left": 4, "right": 2}
    assert api.get(f"{url}branches/compare/", {"left": 3, "right": 2}).json()["common"] == 1
    listed = api.get(f"{url}branches/").json()["results"]
    assert [one["name"] for one in listed] == ["main", "Porto", "branch-2", "branch-3"]
    assert listed[0] == {
        "number": 0,
        "name": "main",
        "kind": "",
        "parent": 0,
        "start": 0,
        "length": 4,
        "created_at": None,
    }
    assert api.get(f"{url}branches/1/").json() == listed[1] == made
    assert api.delete(f"{url}branches/1/").status_code == 204
    assert api.get(f"{url}branches/1/").status_code == 404
    assert texts(api, url, 2) == SAID[:2]


def test_a_branch_is_there_once_however_often_it_is_asked_for(api, trip, url):
    for code in (201, 409, 409):
        post(api, f"{url}branches/", {"name": "Porto"}, code)
    assert post(api, f"{url}branches/", {"name": "main"}, 409)["code"] == "conflict"
    assert post(api, f"{url}rewind/", {"to": 0, "name": "Porto"}, 409)
    assert texts(api, url) == SAID
    assert Branch.objects.count() == 1


@pytest.mark.parametrize(
    "name", ["", " ", ".", "..", "a\x00b", "a\nb", "\ud800", "x" * 256, 5, None, [], {}]
)
def test_a_name_that_cannot_be_one_is_refused(api, trip, url, name):
    for path, more in (("branches/", {}), ("rewind/", {"to": 0})):
        problem = post(api, f"{url}{path}", {"name": name, **more}, 400)
        assert list(problem["errors"]) == ["name"]
    assert not Branch.objects.exists()


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", " Ünïcode ", "a/b", "{{ 7*7 }}"])
def test_a_name_is_kept_to_the_letter(api, trip, url, name):
    answer = api.post(f"{url}branches/", {"name": name}, format="json")
    assert answer.json()["name"] == name
    assert answer["Content-Type"] == "application/json"
    assert answer["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("number", ["-1", "9", "x", "1.0", "%00", str(MOST), "9" * 30, "٣", "+1"])
def test_a_number_that_no_branch_has_is_not_found(api, trip, url, number):
    post(api, f"{url}branches/", {}, 201)
    for method, path in (
        ("get", ""),
        ("delete", ""),
        ("post", "switch/"),
        ("get", "messages/"),
    ):
        answer = getattr(api, method)(f"{url}branches/{number}/{path}")
        assert answer.status_code == 404
        assert answer["Content-Type"] == "application/problem+json"
    code = 404 if number in ("9", str(MOST)) else 400
    compared = api.get(f"{url}branches/compare/", {"right": number})
    assert (compared.status_code, list(compared.json()["errors"])) == (code, ["right"])
    if number in ("9", str(MOST)):
        for given in ({"source": int(number)}, {"source": int(number), "at": 0}):
            assert list(post(api, f"{url}branches/", given, 404)["errors"]) == ["source"]
    assert Branch.objects.count() == 1


def test_the_main_branch_stays(api, trip, url):
    assert api.delete(f"{url}branches/0/").json()["code"] == "conflict"
    assert post(api, f"{url}branches/0/switch/", code=409)["code"] == "conflict"
    assert texts(api, url) == SAID


def test_a_hold_keeps_branches_from_being_deleted(api, trip, url):
    post(api, f"{url}branches/", {}, 201)
    hold(trip.session.id, reason="a lawsuit", actor="legal")
    answer = api.delete(f"{url}branches/1/")
    assert (answer.status_code, answer.json()["code"]) == (409, "legal_hold")
    assert texts(api, url, 1) == SAID
    # Nothing is lost by this.
    post(api, f"{url}branches/1/switch/")


def test_a_branch_that_is_another_by_now_is_not_changed(api, trip, url):
    post(api, f"{url}branches/", {}, 201)
    etag = api.get(f"{url}branches/1/")["ETag"]
    known = api.get(f"{url}branches/1/", headers={"If-None-Match": etag})
    assert known.status_code == 304
    trip.store.append(trip.agent.on_branch(1), said("user", "More"))
    headers = {"If-Match": etag}
    assert api.delete(f"{url}branches/1/", headers=headers).status_code == 412
    assert api.post(f"{url}branches/1/switch/", headers=headers).status_code == 412
    assert texts(api, url) == SAID
    headers = {"If-Match": api.get(f"{url}branches/1/")["ETag"]}
    assert api.post(f"{url}branches/1/switch/", headers=headers).status_code == 200
    assert texts(api, url) == [*SAID, "More"]


def test_pages_of_branches_and_of_their_messages_lead_on_and_back(api, trip, url):
    for _ in range(5):
        post(api, f"{url}branches/", {}, 201)
    assert walked(api, f"{url}branches/?limit=2", "number") == [0, 1, 2, 3, 4, 5]
    found = walked(api, f"{url}branches/3/messages/?limit=3&order=desc", "position")
    assert found == [3, 2, 1, 0]
    # The cursor of one list is none of another.
    cursor = api.get(f"{url}branches/?limit=2").json()["next"].partition("cursor=")[2]
    assert api.get(f"{url}branches/3/messages/?cursor={cursor}").status_code == 400
    for query in ("limit=0", "limit=1000", "offset=2", "cursor=x", "after=1"):
        assert api.get(f"{url}branches/?{query}").status_code == 400
    around = {"around": str(keys(3)[1]), "limit": 2}
    page = api.get(f"{url}branches/3/messages/", around).json()["results"]
    assert [one["position"] for one in page] == [0, 1]
    # A message of another branch is no place in this one.
    around["around"] = str(keys(2)[1])
    assert api.get(f"{url}branches/3/messages/", around).status_code == 400


def walked(api: APIClient, start: str, name: str) -> list[Any]:
    """Reads all pages forwards, and back again."""
    there: list[Any] = []
    page = api.get(start).json()
    assert page["previous"] is None
    while True:
        there += [one[name] for one in page["results"]]
        if page["next"] is None:
            break
        page = api.get(page["next"]).json()
    back = [one[name] for one in page["results"]]
    while page["previous"] is not None:
        page = api.get(page["previous"]).json()
        back = [*(one[name] for one in page["results"]), *back]
    assert page["previous"] is None
    assert back == there
    return there


# --- snapshots ---------------------------------------------------------------------------------


def test_an_agent_is_brought_back_to_a_snapshot(api, trip, url):
    trip.store.agents.update(trip.agent, AgentState({"mood": "early"}))
    taken = post(api, f"{url}snapshots/", code=201)
    assert (taken["branch"], taken["length"]) == (0, 4)
    trip.say(said("user", "More"))
    trip.store.agents.update(trip.agent, AgentState({"mood": "late"}))
    found = post(api, f"{url}snapshots/{taken['id']}/restore/")
    assert found["id"] == taken["id"]
    assert texts(api, url) == SAID
    assert texts(api, url, 1) == [*SAID, "More"]
    assert SessionAgent.objects.get().state == {"mood": "early"}
    # What was left can be gone back to as well.
    listed = api.get(f"{url}snapshots/").json()["results"]
    assert [one["id"] for one in listed][-1] == taken["id"]
    post(api, f"{url}snapshots/{listed[0]['id']}/restore/")
    assert texts(api, url) == [*SAID, "More"]
    assert SessionAgent.objects.get().state == {"mood": "late"}


def test_snapshots_show_nothing_of_what_the_agent_kept(api, ada, trip, url):
    trip.store.agents.update(trip.agent, AgentState({"mood": "plantedstate"}))
    grant(ada, "view_sessionagent")
    made = client_of(ada).post(f"{url}snapshots/")
    listed = client_of(ada).get(f"{url}snapshots/")
    for answer in (made, listed):
        assert "planted" not in answer.content.decode()
        assert "card" not in answer.content.decode()


def test_pages_of_snapshots_lead_on_and_back(api, trip, url):
    made = [post(api, f"{url}snapshots/", code=201)["id"] for _ in range(5)]
    assert walked(api, f"{url}snapshots/?limit=2", "id") == made[::-1]
    after = api.get(f"{url}snapshots/", {"after": made[2]}).json()["results"]
    assert [one["id"] for one in after] == made[1::-1]
    assert api.get(f"{url}snapshots/", {"after": str(uuid4())}).status_code == 400


def test_a_snapshot_of_another_agent_is_none_of_this_one(api, stranger, ada, bob, trip, url):
    second = trip.store.agents.open(trip.session, "second", dialect="strands")
    theirs = Talk(bob, "Hi", session_id="theirs")
    mine = Talk(ada, "Hi", session_id="mine")
    for talk, agent in ((trip, second), (theirs, theirs.agent), (mine, mine.agent)):
        key = talk.store.snapshots.take(agent).id
        assert api.get(f"{url}snapshots/", {"after": str(key)}).status_code == 400
        post(api, f"{url}snapshots/{key}/restore/", code=404)
    for key in ("x", "\x00", uuid4(), "9" * 500):
        post(api, f"{url}snapshots/{key}/restore/", code=404)
    # Nor the latest one, which is the agent itself.
    latest = Snapshot.objects.create(id=new_id(), session_id=trip.session.id, agent_id=second.id)
    post(api, f"/api/agents/{second.id}/snapshots/{latest.pk}/restore/", code=404)
    assert api.get(f"/api/agents/{second.id}/snapshots/").json()["results"][1:] == []
    assert not Branch.objects.exists()


# --- strangers, and what was redacted ----------------------------------------------------------


def test_a_strangers_agent_branch_and_messages_do_not_exist(api, stranger, trip, url):
    post(api, f"{url}rewind/", {"to": 0})
    side = keys(1)
    own = Talk(stranger_of(stranger), "Mine", session_id="own")
    for method, path, body in (
        ("get", "branches/", None),
        ("post", "branches/", {"name": "x"}),
        ("get", "branches/1/", None),
        ("delete", "branches/1/", None),
        ("post", "branches/1/switch/", {}),
        ("get", "branches/1/messages/", None),
        ("get", "branches/compare/?right=1", None),
        ("post", "rewind/", {"to": 0}),
        ("get", "snapshots/", None),
        ("post", "snapshots/", {}),
    ):
        given = {} if body is None else {"data": body, "format": "json"}
        for agent in (trip.agent.id, trip.session.id, side[0], uuid4(), "concierge", "\x00"):
            answer = getattr(stranger, method)(f"/api/agents/{agent}/{path}", **given)
            assert answer.status_code == 404, (method, path, agent)
            assert "isbon" not in answer.content.decode()
    # A message of a side branch is as much its owner's as any.
    assert stranger.get(f"/api/messages/{side[2]}/").status_code == 404
    assert api.get(f"/api/messages/{side[2]}/").json()["branch"] == 1
    mine = f"/api/agents/{own.agent.id}/"
    for key in side:
        post(stranger, f"{mine}rewind/", {"to": str(key)}, 404)
        post(stranger, f"{mine}branches/", {"at": str(key)}, 404)
        assert stranger.get(f"{mine}branches/0/messages/?after={key}").status_code == 400
    assert texts(stranger, mine) == ["Mine"]


def stranger_of(client: APIClient) -> Any:
    from django.contrib.auth import get_user_model

    return get_user_model().objects.get(pk=client.session["_auth_user_id"])


def test_what_was_redacted_is_redacted_on_every_branch(api, ada, trip, url):
    post(api, f"{url}rewind/", {"to": 2})
    redact(trip.session.id, Find("4111 1111 1111 1111"), reason="a ticket", actor=ada)
    post(api, f"{url}branches/", {"source": 1}, 201)
    post(api, f"{url}branches/1/switch/")
    for number in (0, 2, 3):
        answer = api.get(f"{url}branches/{number}/messages/?raw=true")
        assert answer.status_code == 200
        assert "4111" not in answer.content.decode()
        assert "My card is" in answer.content.decode()


# --- what it costs -----------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 60])
def test_an_answer_takes_as_many_statements_however_much_there_is(ada, api, count):
    talk = Talk(ada, *(f"Message {number}" for number in range(2 + count)))
    for number in range(count):
        talk.store.branches.create(talk.agent, upto=number % 3)
        talk.store.snapshots.take(talk.agent)
    url = f"/api/agents/{talk.agent.id}/"
    key = Snapshot.objects.order_by("pk").first()
    assert key is not None
    costs = {}
    for path in (
        "branches/",
        "branches/1/",
        "branches/compare/?right=1",
        "branches/0/messages/",
        "branches/1/messages/",
        "snapshots/",
        f"snapshots/?after={key.pk}",
    ):
        with CaptureQueriesContext(connection) as captured:
            answer = api.get(f"{url}{path}")
            assert answer.status_code == 200
        costs[path.replace(str(key.pk), "")] = len(captured) - WHO
    # The session's row and the agent's, then what is asked for.
    assert costs == {
        "branches/": 4,
        "branches/1/": 4,
        "branches/compare/?right=1": 6,
        "branches/0/messages/": 4,
        # Whether there is such a branch; and what is empty is not read further.
        "branches/1/messages/": 5,
        "snapshots/": 3,
        "snapshots/?after=": 4,
    }


def test_a_change_takes_as_many_statements_however_many_branches_there_are(ada, api):
    assert changed(ada, api, 40) == changed(ada, api, 1)


def changed(ada: Any, api: APIClient, count: int) -> list[int]:
    """Counts what each change of a conversation with so many branches takes."""
    # The bytes of an owner are summed once an hour.
    cache.clear()
    talk = Talk(ada, *(f"Message {number}" for number in range(8)), session_id=f"of {count}")
    for _ in range(count):
        talk.store.branches.create(talk.agent)
    url = f"/api/agents/{talk.agent.id}/"
    costs = []
    for method, path, body in (
        ("post", "rewind/", {"to": 3}),
        ("post", "branches/", {}),
        ("post", "branches/1/switch/", {}),
        ("delete", f"branches/{count + 1}/", {}),
        ("post", "snapshots/", {}),
    ):
        with CaptureQueriesContext(connection) as captured:
            answer = getattr(api, method)(f"{url}{path}", body, format="json")
            assert answer.status_code in (200, 201, 204), answer.content
        costs.append(len(captured))
    return costs


def test_figures_of_the_session_count_a_message_and_its_copies_once(api, trip, url):
    post(api, f"{url}rewind/", {"to": 0})
    assert SessionMessage.objects.count() == 5
    assert Session.objects.get().message_count == 4


def test_usage_counts_what_was_said_once_however_often_it_was_copied(api, trip, url):
    SessionMessage.objects.update(input_tokens=100)
    said = api.get(f"{trip.url}usage/").json()
    assert (said["messages"], said["input_tokens"]) == (4, 400)

    for _ in range(3):
        post(api, f"{url}rewind/", {"to": 0})
    post(api, f"{url}branches/1/switch/", {})
    assert SessionMessage.objects.count() > 4
    assert api.get(f"{trip.url}usage/").json() == said


def test_usage_counts_a_message_once_whose_original_was_deleted(api, trip, url, settings):
    settings.AGENT_SESSIONS = {"PRICES": {"m": {"input": 1}}}
    SessionMessage.objects.update(input_tokens=100, model="m", has_error=True)
    before = api.get(f"{trip.url}usage/").json()
    assert (before["messages"], before["errors"], before["input_tokens"]) == (4, 4, 400)
    assert before["cost"] == "0.0004"

    post(api, f"{url}rewind/", {"to": 1})
    post(api, f"{url}branches/1/switch/", {})
    post(api, f"{url}branches/", {"source": 0}, code=201)
    assert api.delete(f"{url}branches/2/").status_code == 204

    assert SessionMessage.objects.filter(source__isnull=False).count() == 6
    assert api.get(f"{trip.url}usage/").json() == before
    assert api.get(trip.url).json()["message_count"] == 4
    # A fork has copies only, and one of its branches copies of these.
    fork = api.post(f"{trip.url}fork/", {}, format="json").json()
    of_fork = f"/api/agents/{SessionAgent.objects.get(session=fork['id']).id}/"
    post(api, f"{of_fork}rewind/", {"to": 1})
    assert api.get(f"/api/sessions/{fork['id']}/usage/").json() == before
