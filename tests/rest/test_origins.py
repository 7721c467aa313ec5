"""Forks through the API: new sessions that say, to whom it concerns, what they come from."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.db.models import Q
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from django_agent_sessions.exceptions import SessionConflictError
from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.models import AuditEvent, Session, SessionMessage
from django_agent_sessions.models.access import AccessRule
from django_agent_sessions.models.permissions import SessionPermission
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.owners import NOBODY
from django_agent_sessions.values.records import AgentState
from tests.admin.people import staff

from .conftest import Talk, client_of

pytestmark = pytest.mark.django_db

SAID = ["Where to?", "To Lisbon.", "My card is 4111 1111 1111 1111.", "Thanks."]


def fork(client: APIClient, talk: Talk, data: Any = None, code: int = 201, query: str = "") -> Any:
    answer = client.post(
        f"{talk.url}fork/{query}", json.dumps(data or {}), content_type="application/json"
    )
    assert answer.status_code == code, answer.content
    return answer.json()


def texts(client: APIClient, session: str, query: str = "") -> list[str]:
    found = client.get(f"/api/sessions/{session}/messages/{query}").json()["results"]
    return [one["parts"][0]["text"] for one in found]


def key(talk: Talk, position: int) -> str:
    return talk.messages[position].split("/")[-2]


def test_a_fork_goes_on_by_itself(api, trip):
    trip.store.agents.update(trip.agent, AgentState({"mood": "glad"}))
    answer = api.post(f"{trip.url}fork/", {"at": key(trip, 1)}, format="json")
    made = answer.json()
    assert answer.status_code == 201
    assert answer["Location"] == f"http://testserver/api/sessions/{made['id']}/"
    assert api.get(answer["Location"]).json() == made
    assert api.get(answer["Location"], headers={"If-None-Match": answer["ETag"]}).status_code == 304
    assert made["title"] == "A trip"
    assert made["owner"] == api.get(trip.url).json()["owner"]
    assert made["forked_from"] == {"session": str(trip.session.id), "message": key(trip, 1)}
    assert made["message_count"] == 2
    assert texts(api, made["id"]) == SAID[:2]
    # Neither knows of what is said in the other.
    store = SessionStore(owner=trip.store.owner_id)
    agent = store.agents.find(store.get(made["session_id"]), "concierge")
    assert agent is not None
    store.append(agent, {"role": "user", "content": [{"text": "To Porto."}]})
    assert texts(api, made["id"]) == [*SAID[:2], "To Porto."]
    assert texts(api, str(trip.session.id)) == SAID
    assert api.get(trip.url).json()["forked_from"] is None


def test_a_fork_of_all_of_a_fork_says_which_one_it_is_of(api, trip):
    first = fork(api, trip, {"title": "What if?"})
    again = api.post(f"/api/sessions/{first['id']}/fork/", {}, format="json").json()
    assert again["title"] == "What if?"
    assert again["forked_from"] == {"session": first["id"], "message": None}
    assert texts(api, again["id"]) == SAID


def test_a_fork_is_made_once_however_often_it_is_asked_for(api, trip):
    given = {"at": key(trip, 1), "external_id": "thread-2"}
    made = fork(api, trip, given)
    assert made["external_id"] == "thread-2"
    for _ in range(2):
        assert fork(api, trip, given, 200) == made
    # What has the id is not this fork.
    for other in ({"external_id": "thread-2"}, {**given, "at": key(trip, 2)}):
        assert fork(api, trip, other, 409)["code"] == "conflict"
    api.post("/api/sessions/", {"external_id": "thread-3"}, format="json")
    fork(api, trip, {"external_id": "thread-3"}, 409)
    assert Session.objects.count() == 3
    assert AuditEvent.objects.filter(action="forked").count() == 1


FORKER = ("view_session", "read_transcript", "change_session", "add_session")


@pytest.fixture
def nobodys() -> Talk:
    return Talk(NOBODY, *SAID, session_id="nobodys")


def test_a_fork_of_a_session_without_owner_is_made_once(nobodys, trip):
    boss = client_of(staff("boss", *FORKER))
    given = {"at": key(nobodys, 1), "external_id": "e1"}
    # A user's session may have the same id.
    SessionStore(owner=trip.store.owner_id).sessions.open_external("e1")
    made = fork(boss, nobodys, given, 201, "?scope=all")
    assert made["owner"] is None
    for _ in range(2):
        assert fork(boss, nobodys, given, 200, "?scope=all")["id"] == made["id"]
    # Another message or another session is not this fork.
    other = Talk(NOBODY, *SAID, session_id="other")
    child = Talk(NOBODY, *SAID, session_id="child")
    Session.objects.filter(pk=child.session.id).update(external_id="e2")
    for source, body in (
        (nobodys, {"external_id": "e1"}),
        (nobodys, {"external_id": "e2"}),
        (other, {"external_id": "e1"}),
        (other, {"external_id": "e2"}),
    ):
        answer = fork(boss, source, body, 409, "?scope=all")
        assert made["id"] not in str(answer)
    assert Session.objects.filter(forked_from__isnull=False).count() == 1
    # Without ?scope=all nobody reaches it.
    fork(boss, nobodys, given, 404)


def test_of_several_sessions_without_owner_with_one_external_id_the_fork_is_found(nobodys):
    boss = client_of(staff("boss", *FORKER))
    older = Talk(NOBODY, "One", session_id="older")
    made = fork(boss, nobodys, {"external_id": "e1"}, 201, "?scope=all")
    Session.objects.filter(pk=older.session.id).update(external_id="e1")
    assert fork(boss, nobodys, {"external_id": "e1"}, 200, "?scope=all")["id"] == made["id"]


class OnlyTrips(AccessRule):
    """Every member of staff may do everything in the sessions named "trip", and in no other."""

    def sessions(self, user: Any, action: SessionPermission) -> Any:
        return Q(session_id="trip") if user.is_staff else None


@pytest.mark.parametrize("has_owner", [True, False])
def test_an_external_id_opens_no_fork_that_the_user_may_not_read(ada, bob, settings, has_owner):
    talk = Talk(ada if has_owner else NOBODY, *SAID)
    boss = client_of(staff("boss", *FORKER))
    made = fork(boss, talk, {"external_id": "e1", "title": "Hidden"}, 201, "?scope=all")
    Session.objects.filter(pk=made["id"]).update(metadata={"word": "hidden"})
    settings.AGENT_SESSIONS = {"ACCESS": f"{__name__}.OnlyTrips"}

    answer = fork(boss, talk, {"external_id": "e1"}, 409, "?scope=all")

    assert answer["code"] == "conflict"
    assert not any(word in str(answer) for word in ("idden", made["id"]))
    fork(client_of(bob), talk, {"external_id": "e1"}, 404, "?scope=all")


def test_the_store_makes_no_second_session_of_an_external_id(trip):
    trip.store.sessions.fork(trip.session, external_id="thread-2")
    with pytest.raises(SessionConflictError):
        trip.store.sessions.fork(trip.session, external_id="thread-2")
    assert Session.objects.count() == 2


def test_an_external_id_of_somebody_else_is_free(api, stranger, trip, bob):
    stranger.post("/api/sessions/", {"external_id": "thread-2"}, format="json")
    assert fork(api, trip, {"external_id": "thread-2"})["external_id"] == "thread-2"
    assert Session.objects.filter(external_id="thread-2").count() == 2


def test_somebody_elses_session_or_message_is_not_forked(api, stranger, ada, bob, trip):
    own = Talk(bob, "Mine", session_id="own")
    other = Talk(ada, "Another", session_id="other")
    assert fork(stranger, trip, {"at": key(trip, 0)}, 404)["code"] == "not_found"
    fork(stranger, trip, {}, 404)
    for at in (key(trip, 0), str(trip.session.id), str(uuid4())):
        assert list(fork(stranger, own, {"at": at}, 404)["errors"]) == ["at"]
    assert "errors" not in fork(stranger, trip, {"at": key(own, 0)}, 404)
    fork(api, trip, {"at": key(other, 0)}, 404)
    assert Session.objects.count() == 3
    assert AuditEvent.objects.count() == 0


@pytest.mark.parametrize(
    "given",
    [
        {"at": "x"},
        {"at": 3},
        {"at": True},
        {"at": "\x00"},
        {"title": "a\x00b"},
        {"title": "x" * 256},
        {"external_id": ""},
        {"external_id": "a\x00"},
        {"external_id": "x" * 256},
        {"session_id": "mine"},
        {"owner": 1},
        [],
    ],
)
def test_what_cannot_be_is_refused(api, trip, given):
    body = json.dumps(given)
    answer = api.post(f"{trip.url}fork/", body, content_type="application/json")
    assert answer.status_code == 400
    assert answer["Content-Type"] == "application/problem+json"
    assert Session.objects.count() == 1


def test_what_a_session_was_forked_from_is_told_to_whoever_reaches_that(api, ada, bob, trip):
    made = fork(api, trip)
    url = f"/api/sessions/{made['id']}/"
    # The fork is given away: its new owner learns nothing of the other one.
    Session.objects.filter(pk=made["id"]).update(owner=bob)
    answer = client_of(bob).get(url)
    assert answer.json()["forked_from"] is None
    assert str(trip.session.id) not in answer.content.decode()
    support = client_of(staff("carol", "view_session", "read_transcript"))
    assert support.get(url, {"scope": "all"}).json()["forked_from"] is not None
    # Who may read everybody's sees it only by asking for everybody's.
    Session.objects.filter(pk=made["id"]).update(owner=ada)
    Session.objects.filter(pk=trip.session.id).update(owner=bob)
    assert api.get(url).json()["forked_from"] is None
    Session.objects.filter(pk=trip.session.id).delete()
    assert support.get(url, {"scope": "all"}).json()["forked_from"] is None


def test_a_fork_by_others_is_the_owners_and_is_recorded(ada, api, trip):
    carol = staff("carol", "view_session", "read_transcript", "change_session", "add_session")
    made = fork(client_of(carol), trip, {}, query="?scope=all")
    assert made["owner"] == str(ada.pk)
    assert api.get(f"/api/sessions/{made['id']}/").status_code == 200
    event = AuditEvent.objects.get(action="forked")
    assert (event.actor, event.session) == ("carol", trip.session.id)
    assert event.details["fork"] == made["id"]
    assert "trip" not in str(event.details)


def test_what_was_redacted_is_redacted_in_a_fork(api, ada, trip):
    redact(trip.session.id, Find("4111 1111 1111 1111"), reason="a ticket", actor=ada)
    made = fork(api, trip)
    answer = api.get(f"/api/sessions/{made['id']}/messages/?raw=true")
    assert "4111" not in answer.content.decode()
    assert "My card is" in answer.content.decode()
    rows = SessionMessage.objects.filter(session=made["id"])
    assert not any("4111" in json.dumps(row.message) for row in rows)


def test_a_fork_at_a_message_of_a_side_branch_is_of_that_branch(api, trip):
    agent = f"/api/agents/{trip.agent.id}/"
    api.post(f"{agent}rewind/", {"to": 0}, format="json")
    trip.say({"role": "user", "content": [{"text": "To Porto."}]})
    side = api.get(f"{agent}branches/1/messages/").json()["results"]
    made = fork(api, trip, {"at": side[1]["id"]})
    assert texts(api, made["id"]) == SAID[:2]


@pytest.mark.parametrize("count", [1, 300])
def test_a_fork_and_its_answer_take_statements_by_parts_of_what_is_copied(ada, api, count):
    talk = Talk(ada, *(f"Message {number}" for number in range(count)))
    with CaptureQueriesContext(connection) as captured:
        made = fork(api, talk)
    # Messages are copied by the hundred; twelve statements sum the bytes of the session and of its
    # fork for the quota.
    assert len(captured) <= 52 + 2 * (count // 50)
    with CaptureQueriesContext(connection) as captured:
        api.get(f"/api/sessions/{made['id']}/")
    # Who asks; the session, its agents, how it begins and ends; where it is from, and whose
    # that is.
    assert len(captured) == 2 + 4 + 2
