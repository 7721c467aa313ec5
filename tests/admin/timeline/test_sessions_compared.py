"""Any two sessions that one may read are compared turn by turn, and reading both is recorded."""

from __future__ import annotations

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_agent_sessions.content.dialects import STRANDS
from django_agent_sessions.models import AuditEvent, Session
from django_agent_sessions.models.deletion import TOMBSTONE_NAMESPACE
from tests.admin.people import staff
from tests.admin.transcripts import call, result, said, shown

from .pages import Action, events, url

pytestmark = pytest.mark.django_db


@pytest.fixture
def other(store):
    return store.agents.open(store.open("other"), "another", dialect=STRANDS)


def rows(page: str) -> list[tuple[str, str]]:
    """The kind of each row, and the words on both sides."""
    kinds = "same|changed|left|right"
    pattern = rf'class="as-pair as-pair-({kinds})">(.*?)(?=class="as-pair |$)'
    found = re.findall(pattern, page, re.DOTALL)
    return [(kind, " ".join(re.findall(r"<p>([^<]*)</p>", text))) for kind, text in found]


def test_turns_are_aligned_and_differences_marked(client, traveller, store, other):
    one = store.agents.open(store.open("one"), "planner", dialect=STRANDS)
    opening = [said("user", "Hello"), said("assistant", "Good day")]
    tool = [said("assistant", call("1", "look")), said("user", result("1", "blue"))]
    tool_again = [said("assistant", call("2", "look")), said("user", result("2", "blue"))]
    store.append_many(one, [*opening, said("user", "One?"), *tool, said("user", "Bye")])
    store.append_many(other, [*opening, said("user", "Two?"), *tool_again])

    page = shown(client, url(one, "compare_with", **{"with": "other"}))

    assert rows(page) == [
        ("same", "Hello Hello"),
        ("same", "Good day Good day"),
        ("changed", "One? Two?"),
        ("same", ""),
        ("left", "Bye"),
    ]
    assert "2 turns differ." in page
    assert "2 turns are the same" in page
    read = {event.session: event.details["messages"] for event in events(Action.READ)}
    assert read == {one.session: 6, other.session: 5}


def test_a_session_of_others_or_one_that_does_not_exist_is_not_found(client, talker, store, other):
    address = url(talker, "compare_with")
    client.force_login(staff("clerk", "view_session"))
    assert client.get(address).status_code == 404
    assert client.get(address, {"with": "other"}).status_code == 404

    client.force_login(staff("reader", "view_session", "read_transcript"))
    store.append(other, said("user", "plantedword"))
    for named in ("missing", str(talker.session), "talk", "a\x00", "x" * 300, str(talker.id)):
        answer = client.get(address, {"with": named})
        assert answer.status_code == 404, named
        assert "There is no other session with this id" in answer.content.decode()
    Session.objects.filter(session_id="other").update(namespace=TOMBSTONE_NAMESPACE)
    assert client.get(address, {"with": "other", "left": "nonsense"}).status_code == 404
    assert not AuditEvent.objects.exists()


def test_the_sessions_of_the_same_owner_are_offered(client, traveller, talker, other, ada):
    assert "same owner" not in shown(client, url(talker, "compare_with"))

    Session.objects.update(owner=ada)

    page = shown(client, url(talker, "compare_with"))
    assert f"?with={other.session}" in page
    assert f"?with={talker.session}" not in page


def test_a_page_is_bounded_and_leads_to_the_next(client, traveller, store, other):
    long = store.agents.open(store.open("long"), "planner", dialect=STRANDS)
    roles = ("user", "assistant")
    messages = [said(roles[number % 2], f"word {number}.") for number in range(250)]
    store.append_many(long, messages)
    store.append_many(other, messages[:120])

    def compare(**query) -> str:
        with CaptureQueriesContext(connection) as captured:
            page = shown(client, url(long, "compare_with", **{"with": other.session}, **query))
        counted.append(len(captured))
        return page

    counted: list[int] = []
    compare()
    first = compare()
    assert "100 turns are the same" in first
    assert "word 100." not in first
    left, right = re.findall(r"(?:left|right)=([0-9a-f-]{36})", first)
    second = compare(left=left, right=right)
    assert "20 turns are the same" in second
    assert "80 turns differ." in second
    assert "word 200." not in second
    assert max(counted) <= 20
