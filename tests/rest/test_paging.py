"""Pages: how many rows they have, what goes while they are read, and which parameters there are."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIRequestFactory, force_authenticate

from django_agent_sessions.events import reading
from django_agent_sessions.events.event_types import MessageEvent
from django_agent_sessions.models import Session, SessionAgent, SessionMessage
from django_agent_sessions.queries import message_pages
from django_agent_sessions.queries.message_pages import MessageQuery
from django_agent_sessions.rest.viewsets import ConversationViewSet, SessionViewSet
from django_agent_sessions.values.ids import new_id
from tests.admin.transcripts import said

from .conftest import Talk, listed

pytestmark = pytest.mark.django_db

SESSIONS = "/api/sessions/"


def texts(page: dict[str, Any]) -> list[str]:
    return [row["parts"][0]["text"] for row in page["results"]]


@pytest.fixture
def seven(ada) -> Talk:
    return Talk(ada, *(f"m{number}" for number in range(7)))


@pytest.mark.parametrize(
    "limit", ["000000001000000", "1000000", "00000000050", "9" * 4400, "0" * 4400 + "1", "000000"]
)
def test_a_limit_is_the_number_that_was_checked(seven, api, limit):
    for url in (SESSIONS, f"{seven.url}messages/"):
        answer = api.get(url, {"limit": limit})
        assert answer.status_code == 400, answer.status_code
        assert set(answer.json()["errors"]) == {"limit"}


@pytest.mark.parametrize("agent", [{}, {"agent": "concierge"}])
def test_what_was_said_anew_after_a_page_is_on_the_next_one(seven, api, agent):
    page = listed(api, seven, limit=6, **agent)
    for _ in range(2):
        seven.store.pop(seven.agent)
    for number in range(4):
        seven.say(said("user", f"new{number}"))
    assert texts(page) == [f"m{number}" for number in range(6)]
    following = api.get(page["next"]).json()
    assert texts(following) == ["new0", "new1", "new2", "new3"]
    assert following["next"] is None


@pytest.mark.parametrize("agent", [{}, {"agent": "concierge"}])
def test_older_messages_follow_newer_ones_that_are_gone(seven, api, agent):
    page = listed(api, seven, limit=2, order="desc", **agent)
    assert texts(page) == ["m6", "m5"]
    for _ in range(2):
        seven.store.pop(seven.agent)
    following = api.get(page["next"]).json()
    assert texts(following) == ["m4", "m3"]
    assert texts(api.get(following["next"]).json()) == ["m2", "m1"]


@pytest.mark.parametrize("side", ["after", "before", "around"])
def test_a_message_that_is_not_in_an_agents_conversation_is_no_place_in_it(seven, api, side):
    gone = seven.messages[-1].split("/")[-2]
    seven.store.pop(seven.agent)
    other = seven.store.agents.open(seven.session, "other", dialect="strands")
    others = str(seven.store.append(other, said("user", "hello")).id)
    for key in (gone, others, str(new_id())):
        answer = api.get(f"{seven.url}messages/", {"agent": "concierge", side: key})
        assert answer.status_code == 400
        assert answer.json()["errors"] == {side: ["The list does not contain this message."]}


def test_a_window_of_an_agent_has_what_is_beside_a_message_that_is_gone(seven):
    scope = MessageQuery(Session.objects.get(), SessionAgent.objects.get())
    keys = [row.id for row in message_pages.first_page(scope).rows]
    for _ in range(2):
        seven.store.pop(seven.agent)
    for gone in keys[5:]:
        assert [row.id for row in message_pages.page_before(scope, gone, count=2).rows] == keys[3:5]
        assert message_pages.page_after(scope, gone).rows == []
        assert [row.id for row in message_pages.page_around(scope, gone, count=4).rows] == keys[3:5]
    seven.say(said("user", "anew"))
    (anew,) = message_pages.page_after(scope, keys[5]).rows
    assert anew.message_id == 5
    assert [row.id for row in message_pages.page_before(scope, keys[6]).rows] == keys[:5]


def test_a_place_need_not_be_among_what_is_looked_for(seven, api):
    place = seven.messages[3].split("/")[-2]
    seven.say(said("user", "m1 again"))
    for agent in ({}, {"agent": "concierge"}):
        assert texts(listed(api, seven, q="m1", after=place, **agent)) == ["m1 again"]
        assert texts(listed(api, seven, q="m1", before=place, **agent)) == ["m1"]


def test_a_message_that_goes_while_a_page_is_read_is_not_on_it(seven, api, monkeypatch):
    large = said("user", "x" * message_pages.MAX_PAGE_BYTES)
    seven.say(large)
    fill = message_pages.read_payloads

    def popped(*given: Any, **more: Any) -> None:
        seven.store.pop(seven.agent)
        fill(*given, **more)

    monkeypatch.setattr(message_pages, "read_payloads", popped)
    page = listed(api, seven)
    assert texts(page) == [f"m{number}" for number in range(7)]
    assert api.get(seven.say(large)).status_code == 404


def test_lists_hold_the_main_branch_only(seven, api):
    SessionMessage.objects.filter(message_id__gt=4).update(branch=1)
    for agent in ({}, {"agent": "concierge"}):
        assert texts(listed(api, seven, **agent)) == [f"m{number}" for number in range(5)]
        assert texts(listed(api, seven, order="desc", limit=1, **agent)) == ["m4"]


@pytest.mark.parametrize("name", ["archvied", "Limit", "page", "offset", "", "ünïcode", "a\x00b"])
def test_an_unknown_parameter_is_refused_with_the_names_of_the_known(seven, api, name):
    for url, known in ((SESSIONS, "archived"), (f"{seven.url}messages/", "around")):
        answer = api.get(url, {name: "true"})
        assert answer.status_code == 400, url
        ((told, (hint,)),) = answer.json()["errors"].items()
        assert told == name.replace("\x00", "�")
        assert known in hint
        assert "limit" in hint


def test_very_many_unknown_parameters_make_no_long_answer(api):
    answer = api.get(SESSIONS, {f"{number}{'x' * 500}": "" for number in range(100)})
    assert answer.status_code == 400
    assert len(answer.json()["errors"]) == 10
    assert max(map(len, answer.json()["errors"])) == 100


def test_every_parameter_of_the_document_is_known(seven, api):
    from .openapi import document

    paths = document()["paths"]
    for path, url in (("sessions/", SESSIONS), ("messages/", f"{seven.url}messages/")):
        (found,) = [
            item["get"]
            for name, item in paths.items()
            if name.endswith(path) and item.get("get", {}).get("operationId", "").endswith("_list")
        ]
        names = {one["name"] for one in found["parameters"] if one["in"] == "query"}
        assert {"limit", "cursor", "q", "scope"} <= names
        for name in {*names, "format"}:
            answer = api.get(url, {name: "json"})
            if answer.status_code == 400:
                assert "Unknown parameter" not in str(answer.json()["errors"])


def test_a_message_that_goes_while_a_stream_is_read_is_not_told(seven, monkeypatch):
    session = Session.objects.get()
    cursor = reading.first_cursor(session)
    assert cursor is not None
    fill = message_pages.read_payloads

    def popped(*given: Any, **more: Any) -> None:
        monkeypatch.setattr(message_pages, "read_payloads", fill)
        seven.store.pop(seven.agent)
        fill(*given, **more)

    monkeypatch.setattr(message_pages, "read_payloads", popped)
    page = reading.read_events(session, cursor)
    assert page is not None
    told = [event.row for event in page.events if isinstance(event, MessageEvent)]
    assert [row.message_id for row in told] == list(range(6))
    assert all(row.payload is not None for row in told)
    following = reading.read_events(session, page.cursor)
    assert following is not None
    assert following.events == []


class Starred(SessionViewSet):
    query_parameters = ("starred",)


class Talks(ConversationViewSet):
    query_parameters = ("starred",)


def test_a_project_names_parameters_of_its_own(seven, ada):
    for view, given in ((Starred, {}), (Talks, {"session": str(seven.session.id)})):
        for name, status in (("starred", 200), ("stared", 400)):
            request = APIRequestFactory().get("/", {name: "true"})
            force_authenticate(request, ada)
            answer: Any = view.as_view({"get": "list"})(request, **given)
            assert answer.status_code == status
        assert "starred" in str(answer.data)
