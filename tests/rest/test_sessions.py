"""Sessions through the API: list, make, read, change, delete."""

from __future__ import annotations

import json
import re

import pytest
from django.utils import timezone

from django_agent_sessions.governance import legal_hold
from django_agent_sessions.models import AuditEvent, Session, SessionMessage
from django_agent_sessions.models.titles import last_text
from django_agent_sessions.rest.base import SafeJSONRenderer, compute_etag
from django_agent_sessions.rest.serializers.sessions import SessionRowSerializer
from django_agent_sessions.store import SessionStore

from .conftest import Talk

pytestmark = pytest.mark.django_db

SESSIONS = "/api/sessions/"
MISSING = "/api/sessions/01890000-0000-7000-8000-000000000000/"


def test_a_list_holds_ones_own_sessions_the_most_recently_active_first(api, ada, bob):
    for name in ("one", "two", "three"):
        Talk(ada, "Hello", session_id=name)
    Talk(bob, "Hello", session_id="bobs")
    page = api.get(SESSIONS).json()
    assert [row["session_id"] for row in page["results"]] == ["three", "two", "one"]
    assert page["next"] is None
    assert page["previous"] is None


def test_rows_of_a_list_have_a_title_and_the_last_text_and_nothing_else_that_was_said(
    api, trip, ada
):
    Talk(ada, "Where is my parcel?", session_id="untitled", title="")
    SessionStore(owner=ada).create("empty")
    answer = api.get(SESSIONS)
    rows = {row["session_id"]: row for row in answer.json()["results"]}
    assert {name: (row["title"], row["display_title"]) for name, row in rows.items()} == {
        "trip": ("A trip", "A trip"),
        "untitled": ("", "Where is my parcel?"),
        "empty": ("", "empty"),
    }
    last = SessionMessage.objects.filter(session=trip.session.id).latest("id")
    said = {"message": str(last.pk), "role": "assistant", "text": "Thanks."}
    assert rows["trip"]["last_text"] == said
    assert rows["empty"]["last_text"] is None
    assert "Lisbon" not in answer.content.decode()
    assert "metadata" not in rows["trip"]
    assert answer["Cache-Control"] == "private, no-store"


def test_rows_of_a_list_are_what_the_documented_serializer_makes_of_sessions(api, trip, ada):
    SessionStore(owner=ada).create("archived", external_id="a\u2028b", title="\ud800 <b>")
    Session.objects.filter(session_id="archived").update(
        archived_at=timezone.now(), legal_hold=True, input_tokens=2**40
    )
    Talk(ada, "Hello", session_id="untitled", title="")
    rows = Session.objects.recent_first().with_display_title().annotate(last_text=last_text())
    expected = SafeJSONRenderer().render(SessionRowSerializer(rows, many=True).data)
    assert api.get(SESSIONS).json()["results"] == json.loads(expected)


def test_moments_are_written_as_javascript_writes_them(api, trip):
    row = api.get(SESSIONS).json()["results"][0]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", row["created_at"])


def test_pages_lead_forwards_and_back_and_hold_everything_once(api, ada):
    store = SessionStore(owner=ada)
    # Alike in time, so that only the key orders them.
    keys = [str(store.create(f"s{number}").id) for number in range(25)]
    moment = Session.objects.earliest("id").last_activity_at
    Session.objects.filter(session_id__startswith="s1").update(last_activity_at=moment)
    expected = [str(key) for key in Session.objects.recent_first().values_list("pk", flat=True)]
    assert set(expected) == set(keys)
    found, url, pages = [], f"{SESSIONS}?limit=4", []
    while url:
        page = api.get(url).json()
        pages.append(page)
        found += [row["id"] for row in page["results"]]
        url = page["next"]
    assert found == expected
    back: list[str] = []
    url = pages[-1]["previous"]
    while url:
        page = api.get(url).json()
        back = [row["id"] for row in page["results"]] + back
        url = page["previous"]
    assert back == expected[:24]


def test_an_id_is_a_place_in_a_list_too(api, ada):
    keys = [str(SessionStore(owner=ada).create(f"s{number}").id) for number in range(5)]
    page = api.get(f"{SESSIONS}?after={keys[2]}").json()
    assert [row["id"] for row in page["results"]] == [keys[1], keys[0]]


def test_a_cursor_is_for_the_list_and_the_user_it_was_made_for(api, stranger, ada, bob):
    for number in range(3):
        SessionStore(owner=ada).create(f"s{number}")
        SessionStore(owner=bob).create(f"b{number}")
    url = api.get(f"{SESSIONS}?limit=1").json()["next"]
    assert api.get(url).status_code == 200
    assert api.get(f"{url}&archived=true").status_code == 400
    assert stranger.get(url).status_code == 400
    assert api.get(f"{SESSIONS}?cursor=forged").status_code == 400


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=101", "limit=x", "limit=٣", "archived=maybe", "created_after=soon",
     "created_after=2026-01-01T00:00:00", "after=x", f"q={'x' * 501}", "external_id=%00"],
)  # fmt: skip
def test_a_wrong_parameter_is_an_error_that_names_it(api, query):
    answer = api.get(f"{SESSIONS}?{query}")
    assert answer.status_code == 400
    assert answer["Content-Type"] == "application/problem+json"
    problem = answer.json()
    assert query.split("=")[0] in problem["errors"]
    assert problem["message"] == problem["error"]["message"] == problem["detail"]


def test_filters_choose(api, ada):
    store = SessionStore(owner=ada)
    plain = store.create("plain")
    put_away = store.create("put away", external_id="mine")
    store.agents.open(put_away, "writer", dialect="strands")
    store.sessions.update(put_away.id, archived=True)

    def found(query: str) -> list[str]:
        return [row["id"] for row in api.get(f"{SESSIONS}?{query}").json()["results"]]

    assert found("archived=true") == [str(put_away.id)]
    assert found("archived=false") == [str(plain.id)]
    assert found("external_id=mine") == [str(put_away.id)]
    assert found("session_id=plain") == [str(plain.id)]
    assert found("agent=writer") == [str(put_away.id)]
    assert found("errors=true") == []
    writer = store.agents.open(put_away, "writer")
    content = [{"toolResult": {"toolUseId": "t", "status": "error", "content": []}}]
    store.append(writer, {"role": "user", "content": content})
    assert found("errors=true") == [str(put_away.id)]
    assert found("errors=false") == [str(plain.id)]
    url = f"{SESSIONS}{put_away.id}/"
    assert api.get(url).json()["error_count"] == 1
    usage = api.get(f"{url}usage/").json()
    assert (usage["errors"], usage["agents"][0]["errors"]) == (1, 1)
    assert found("created_after=2999-01-01T00:00:00Z") == []
    assert len(found("active_before=2999-01-01T00:00:00Z")) == 2


def test_a_search_finds_what_was_said_among_ones_own(api, ada, bob, trip):
    Talk(bob, "Lisbon is far", session_id="bobs")
    Talk(ada, "Porto", session_id="porto")
    page = api.get(f"{SESSIONS}?q=lisbon").json()
    assert [row["session_id"] for row in page["results"]] == ["trip"]
    assert page["search"] == {"truncated": False, "limited": False}


def test_the_server_names_a_session_that_is_made(api, ada):
    answer = api.post(SESSIONS, {"title": "New", "metadata": {"agent": "x"}}, format="json")
    assert answer.status_code == 201
    made = answer.json()
    assert made["session_id"] == made["id"]
    assert made["metadata"] == {"agent": "x"}
    assert answer["Location"].endswith(f"{SESSIONS}{made['id']}/")
    row = Session.objects.get(pk=made["id"])
    assert row.owner == ada
    # The name is for an agent to go on with.
    assert SessionStore(owner=ada).get(made["session_id"]).id == row.pk


def test_a_clients_own_id_finds_the_same_session_again(api, stranger):
    given = {"external_id": "thread-1", "title": "First"}
    made = api.post(SESSIONS, given, format="json")
    again = api.post(SESSIONS, {**given, "title": "Second"}, format="json")
    plain = api.post(SESSIONS, {"external_id": "thread-1"}, format="json")
    assert [made.status_code, again.status_code, plain.status_code] == [201, 200, 200]
    assert made.json()["id"] == again.json()["id"] == plain.json()["id"]
    assert plain.json()["title"] == "Second"
    theirs = stranger.post(SESSIONS, {"external_id": "thread-1"}, format="json")
    assert theirs.status_code == 201
    assert theirs.json()["id"] != made.json()["id"]
    assert Session.objects.count() == 2


def test_nobody_chooses_the_name_of_a_session(api):
    answer = api.post(SESSIONS, {"session_id": "mine"}, format="json")
    assert answer.status_code == 400
    assert "Unknown field" in answer.json()["errors"]["session_id"][0]
    assert not Session.objects.exists()


def test_a_session_tells_how_it_begins_and_ends(api, trip):
    found = api.get(trip.url).json()
    assert found["first_text"]["text"] == "Where to?"
    assert found["last_text"]["text"] == "Thanks."
    assert [agent["agent_id"] for agent in found["agents"]] == ["concierge"]
    assert found["message_count"] == 4


def test_a_session_is_renamed_archived_and_brought_back(api, trip):
    changed = api.patch(trip.url, {"title": "Lisbon", "archived": True}, format="json").json()
    assert changed["title"] == "Lisbon"
    first = changed["archived_at"]
    assert api.patch(trip.url, {"archived": True}, format="json").json()["archived_at"] == first
    again = api.patch(
        trip.url, {"archived": False, "expires_at": "2030-01-01T00:00:00Z"}, format="json"
    )
    assert again.json()["archived_at"] is None
    assert again.json()["expires_at"] == "2030-01-01T00:00:00.000Z"
    assert again.json()["title"] == "Lisbon"


def test_a_change_of_what_somebody_changed_meanwhile_is_refused(api, trip):
    def rename(title: str, etag: str) -> int:
        changed = api.patch(trip.url, {"title": title}, format="json", headers={"If-Match": etag})
        return int(changed.status_code)

    read = api.get(trip.url)["ETag"]
    assert rename("A", read) == 200
    assert rename("B", read) == 412
    assert Session.objects.get().title == "A"
    assert rename("B", api.get(trip.url)["ETag"]) == 200
    assert rename("C", "no tag") == 400


def test_what_a_client_has_already_is_not_sent_again(api, trip):
    read = api.get(trip.url)
    again = api.get(trip.url, headers={"If-None-Match": read["ETag"]})
    assert again.status_code == 304
    assert again.content == b""
    assert read["Cache-Control"] == again["Cache-Control"] == "private, no-store"
    assert "Cookie" in read["Vary"]


def test_an_etag_is_no_digest_that_a_guess_could_be_tested_against(settings):
    tag = compute_etag({"title": "a guess"})
    assert compute_etag({"title": "a guess"}) == tag
    # The same content has another tag on a site with another key.
    settings.SECRET_KEY = "another key of another site"
    assert compute_etag({"title": "a guess"}) != tag


def test_a_session_is_deleted_unless_it_is_held(api, trip, ada):
    legal_hold.hold(trip.session.id, reason="A lawsuit")
    held = api.delete(trip.url)
    assert held.status_code == 409
    assert held.json()["code"] == "legal_hold"
    legal_hold.release(trip.session.id, reason="Settled")
    assert api.delete(trip.url).status_code == 204
    assert api.get(trip.url).status_code == 404
    event = AuditEvent.objects.get(action="deleted")
    assert (event.actor, event.details["via"]) == ("ada", "api")


def test_a_strangers_session_answers_as_one_that_does_not_exist(stranger, trip):
    for method in ("get", "patch", "delete", "put", "post", "options", "head"):
        call = getattr(stranger, method)
        theirs, none = call(trip.url), call(MISSING)
        assert theirs.status_code == none.status_code
        assert theirs.content == none.content
        assert theirs.headers == none.headers
    assert Session.objects.exists()
