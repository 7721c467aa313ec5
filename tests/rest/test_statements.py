"""What an answer costs: as many statements for three hundred rows as for one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_agent_sessions.models import Session, SessionAgent, SessionMessage, SessionMultiAgent
from django_agent_sessions.queries import message_pages
from tests.admin.people import staff
from tests.admin.transcripts import said

from .conftest import Talk, client_of
from .planted import IMAGE, ask, body_of

pytestmark = pytest.mark.django_db

WHO = 2
"""Django's session and the user, at each request."""

MAY = 2
"""The permissions of the user, and of the user's groups; asked for once in a request."""


def fill(owner: Any, count: int) -> None:
    """Makes sessions, and in the first of them as many agents and messages."""
    start = timezone.now() - timedelta(days=1)
    sessions = Session.objects.bulk_create(
        Session(
            session_id=f"{owner.pk}-{number}",
            owner=owner,
            title="A trip",
            external_id=f"x{number}",
            last_activity_at=start - timedelta(seconds=number),
        )
        for number in range(count)
    )
    agents = SessionAgent.objects.bulk_create(
        SessionAgent(
            session=sessions[0], agent_id=f"a{number}", dialect="strands", state={"a": number}
        )
        for number in range(count)
    )
    SessionMultiAgent.objects.bulk_create(
        SessionMultiAgent(session=sessions[0], multi_agent_id=f"g{number}", state={"a": number})
        for number in range(count)
    )
    messages = []
    image = {"image": {"format": "png", "source": {"bytes": b"\x89PNG\r\n\x1a\n....."}}}
    for number in range(count):
        payload = said("user", f"To Lisbon {number}")
        payload["content"].append(image)
        messages.append(
            SessionMessage(
                session=sessions[0],
                agent=agents[0],
                message_id=number,
                message=payload,
                role="user",
                text=f"To Lisbon {number}",
            )
        )
    SessionMessage.objects.bulk_create(messages)


def first(owner: Any) -> dict[str, str]:
    """Gives the keys of the most recent session, and of messages in its middle."""
    session = Session.objects.filter(owner=owner).recent_first()[0]
    keys = list(session.messages.order_by("id").values_list("pk", flat=True))
    return {"session": str(session.pk), "message": str(keys[len(keys) // 2])}


SESSION = "/api/sessions/{session}/"
MESSAGE = "/api/messages/{message}/"
READS: list[tuple[str, dict[str, Any], int]] = [
    # A session's row, then what belongs to it.
    ("/api/sessions/", {}, 1),
    ("/api/sessions/", {"limit": 100, "archived": "false"}, 1),
    ("/api/sessions/", {"agent": "a0"}, 1),
    ("/api/sessions/", {"external_id": "x0"}, 1),
    # The place, then the page.
    ("/api/sessions/", {"after": "{session}"}, 2),
    (SESSION, {}, 4),
    (f"{SESSION}usage/", {}, 2),
    (f"{SESSION}agents/", {}, 2),
    (f"{SESSION}multi-agents/", {}, 2),
    # The session, its agents' names, and the window with its payloads.
    (f"{SESSION}messages/", {}, 3),
    (f"{SESSION}messages/", {"limit": 200}, 3),
    (f"{SESSION}messages/", {"order": "desc"}, 3),
    (f"{SESSION}messages/", {"agent": "a0"}, 3),
    (f"{SESSION}messages/", {"raw": "true"}, 3),
    # Both sides of it.
    (f"{SESSION}messages/", {"around": "{message}"}, 4),
    # Where the newest candidates begin, and which of them match.
    (f"{SESSION}messages/", {"q": "lisbon"}, 5),
    (MESSAGE, {}, 3),
    (MESSAGE, {"raw": "true"}, 3),
    (f"{MESSAGE}media/", {"path": IMAGE}, 3),
]


def filled(value: str, keys: dict[str, str]) -> str:
    for name, key in keys.items():
        value = value.replace(f"{{{name}}}", key)
    return value


def cost(client: Any, url: str, query: dict[str, Any], keys: dict[str, str]) -> int:
    with CaptureQueriesContext(connection) as captured:
        query = {name: filled(str(value), keys) for name, value in query.items()}
        answer = ask(client, "get", filled(url, keys), query)
        assert answer.status_code == 200, body_of(answer)
        body_of(answer)
    return len(captured)


def told(url: str, query: dict[str, Any]) -> str:
    return f"{url} {' '.join(map(str, query))}"


@pytest.fixture(params=[1, 300])
def count(request) -> int:
    number: int = request.param
    return number


def test_ones_own_are_read_by_a_constant_number_of_statements(ada, api, count):
    fill(ada, count)
    keys = first(ada)
    # States are left out for whoever may not see them, which is asked first.
    own = {
        f"{SESSION}agents/a0/": MAY + 2,
        f"{SESSION}multi-agents/g0/": MAY + 2,
    }
    expected = {told(url, query): WHO + number for url, query, number in READS}
    expected |= {told(url, {}): WHO + number for url, number in own.items()}
    asked = [*READS, *((url, {}, 0) for url in own)]
    assert {told(url, query): cost(api, url, query, keys) for url, query, _ in asked} == expected


def test_others_are_read_by_as_many_and_the_record_of_it(bob, count):
    fill(bob, count)
    keys = first(bob)
    client = client_of(staff("carol", "view_session", "read_transcript", "view_sessionagent"))
    expected = {told(url, query): WHO + MAY + number + 1 for url, query, number in READS}
    # The permission has been read when states are about to be shown.
    expected |= {
        told(f"{SESSION}agents/a0/", {}): WHO + MAY + 3,
        told(f"{SESSION}multi-agents/g0/", {}): WHO + MAY + 3,
    }
    asked = [*READS, (f"{SESSION}agents/a0/", {}, 0), (f"{SESSION}multi-agents/g0/", {}, 0)]
    assert {
        told(url, query): cost(client, url, {**query, "scope": "all"}, keys)
        for url, query, _ in asked
    } == expected


def test_payloads_that_may_not_fit_on_a_page_are_one_statement_more(ada, api):
    talk = Talk(ada, "Hello")
    asked = f"{talk.url}messages/"
    usual = cost(api, asked, {}, {})
    talk.say(said("user", "x" * message_pages.MAX_PAGE_BYTES))
    assert cost(api, asked, {}, {}) == usual + 1


@pytest.mark.parametrize(
    ("query", "number"),
    # By id; owners' names; where titles begin, titles; whose messages, where they begin, which of
    # them; whose those are, if there are any; and the page, unless nothing was found.
    [("nothing like it", 7), ("trip", 8), ("x0", 8), ("lisbon", 9)],
)
def test_a_search_takes_a_constant_number_of_statements(ada, api, count, query, number):
    fill(ada, count)
    assert cost(api, "/api/sessions/", {"q": query}, {}) == WHO + number


@pytest.mark.parametrize("form", ["markdown", "jsonl"])
def test_an_export_takes_statements_by_parts_of_what_it_writes(ada, api, form):
    fill(ada, 1)
    keys = first(ada)
    few = cost(api, f"{SESSION}export/", {"as": form}, keys)
    Session.objects.all().delete()
    fill(ada, 20)
    # An agent is up to four statements; messages come by the hundred.
    assert cost(api, f"{SESSION}export/", {"as": form}, first(ada)) <= few + 4 * 19


def test_a_change_takes_a_constant_number_of_statements(ada, api, count):
    fill(ada, count)
    url = filled(SESSION, first(ada))
    with CaptureQueriesContext(connection) as captured:
        assert api.patch(url, {"archived": True}, format="json").status_code == 200
    changed = len(captured)
    with CaptureQueriesContext(connection) as captured:
        assert api.post("/api/sessions/", {"title": "New"}, format="json").status_code == 201
    # Each reads what it answers, and is whole or not at all; a new session is counted.
    assert (changed, len(captured)) == (WHO + 11, WHO + 8)
