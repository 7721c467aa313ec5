"""A conversation is read in order, fifty messages at a time, and a long one costs no more."""

from __future__ import annotations

import re
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_agent_sessions.content.dialects import STRANDS
from django_agent_sessions.models import SessionAgent, SessionMessage
from tests.admin.people import staff
from tests.admin.transcripts import call, fragment_url, page_url, said, shown
from tests.models.test_fields import set_raw

pytestmark = pytest.mark.django_db


def test_a_conversation_is_read_in_order_with_its_roles_and_agents(client, reader, talker, store):
    other = store.agents.open(store.open("session-1"), "helper", dialect=STRANDS)
    store.append(talker, said("user", "first words"))
    store.append(other, said("assistant", "second words"))
    store.append(talker, said("assistant", "third words"))

    page = shown(client, page_url("session-1"))

    places = [page.index(f"{number} words") for number in ("first", "second", "third")]
    assert places == sorted(places)
    for label in ("User", "Assistant", "planner", "helper"):
        assert label in page


def test_a_window_shows_fifty_messages_and_leads_both_ways(client, reader, talker, store):
    store.append_many(talker, [said("user", f"<{number}>") for number in range(200)])
    keys = list(SessionMessage.objects.order_by("message_id").values_list("pk", flat=True))

    def numbers(**query):
        page = shown(client, page_url("session-1"), **query)
        return [int(found) for found in re.findall(r"&lt;(\d+)&gt;", page)]

    assert numbers() == list(range(150, 200))
    assert numbers(**{"from": "start"}) == list(range(50))
    assert numbers(at=keys[100]) == list(range(75, 125))
    assert numbers(before=keys[75]) == list(range(25, 75))
    assert numbers(after=keys[124]) == list(range(125, 175))
    assert numbers(all=1) == list(range(200))
    agent = SessionAgent.objects.get()
    assert numbers(agent=agent.pk, at=keys[100]) == list(range(75, 125))
    assert numbers(agent=agent.pk, before=keys[75]) == list(range(25, 75))
    assert numbers(agent=agent.pk, after=keys[124]) == list(range(125, 175))
    assert numbers(agent=agent.pk) == list(range(150, 200))


def test_further_messages_come_without_the_rest_of_the_page(client, reader, talker, store):
    store.append_many(talker, [said("user", f"<{number}>") for number in range(60)])
    key = SessionMessage.objects.get(message_id=10).pk

    answer = client.get(fragment_url("session-1"), {"before": key})

    text = answer.content.decode()
    assert [int(found) for found in re.findall(r"&lt;(\d+)&gt;", text)] == list(range(10))
    assert "<html" not in text
    assert "data-as-earlier" not in text
    assert "no-store" in answer["Cache-Control"]


def test_fifty_and_ten_thousand_messages_take_the_same_statements(client, reader, store):
    def open_pages(name: str, count: int) -> list[int]:
        agent = store.agents.open(store.open(name), dialect=STRANDS)
        for start in range(0, count, 200):
            batch = [said("user", f"{number}") for number in range(start, min(start + 200, count))]
            store.append_many(agent, batch)
        keys = SessionMessage.objects.filter(agent=agent.id).order_by("message_id")
        middle = keys[count // 2].pk
        found = []
        for query in ({}, {"at": middle}, {"at": middle, "agent": agent.id}, {"from": "start"}):
            with CaptureQueriesContext(connection) as captured:
                shown(client, page_url(name), **query)
            found.append(len(captured))
        with CaptureQueriesContext(connection) as captured:
            shown(client, fragment_url(name), before=middle)
        return [*found, len(captured)]

    shown(client, page_url(open_one(store)))
    few = open_pages("few", 50)

    assert open_pages("many", 10_000) == few
    assert max(few) <= 17


def open_one(store) -> str:
    """A first request also reads the user's permissions and the like into caches."""
    store.open("another")
    return "another"


def test_corrupt_and_unknown_payloads_are_shown_as_such(client, reader, talker, session, store):
    store.append(talker, said("user", "to be broken"))
    strange = store.agents.open(session, "strange", dialect="telepathy")
    store.append(strange, {"thought": "a thought"})
    store.append(strange, None)
    store.append(strange, "only \ud800 text \x00")
    set_raw(0, '{"role": "user", "cont')

    page = shown(client, page_url("session-1"))

    assert page.count("Corrupt: the stored data is not a message.") == 2
    store.append(strange, {"thought": "another thought"})
    assert "another thought" in shown(client, page_url("session-1"))


def test_what_is_no_session_is_not_found(client, reader, talker):
    url = page_url("session-1")

    for key in (str(uuid4()), "nonsense"):
        other = url.replace(str(talker.session), key)
        assert client.get(other).status_code == 404


def test_every_message_and_part_can_be_pointed_at(client, reader, talker, store):
    store.append(talker, said("user", "one", call("1", "f")))
    key = SessionMessage.objects.get().pk

    page = shown(client, page_url("session-1"))

    assert f'id="m-{key}" data-message="{key}" data-path="[]"' in page
    for number in (0, 1):
        assert f'data-message="{key}" data-path="[&quot;content&quot;,{number}]"' in page
    assert "redact/" not in page
    client.force_login(staff("editor", "view_session", "read_transcript", "redact"))
    page = shown(client, page_url("session-1"))
    assert f"redact/?message={key}&amp;path=%5B%22content%22%2C0%5D" in page
