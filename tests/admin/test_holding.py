from __future__ import annotations

from urllib.parse import urlencode

import pytest
from django.urls import reverse

from django_agent_sessions.models import AuditEvent, Session

from .people import many, staff
from .test_list import LIST, link, listed

pytestmark = pytest.mark.django_db


@pytest.fixture
def sessions():
    return many(3)


@pytest.fixture
def officer(client):
    client.force_login(staff("officer", "view_session", "change_session"))
    return client


def act(client, action: str, keys, **fields):
    data = {"action": action, "_selected_action": [str(key) for key in keys], **fields}
    return client.post(reverse(LIST), data)


def held() -> set:
    return set(Session.objects.filter(legal_hold=True).values_list("pk", flat=True))


def test_a_hold_asks_for_a_reason_first(officer, sessions):
    response = act(officer, "hold_selected", sessions[:2], index="0")

    page = response.content.decode()
    assert response.status_code == 200
    assert 'name="reason"' in page
    assert all(str(key) in page for key in sessions[:2])
    assert str(sessions[2]) not in page
    assert held() == set()


def test_a_hold_names_sessions_by_title_for_who_may_read_it(client, store):
    session = store.open("talk-7", title="Broken teapot")
    client.force_login(staff("clerk", "view_session", "change_session"))
    assert ">talk-7</a>" in act(client, "hold_selected", [session.id]).content.decode()
    client.force_login(staff("reader", "view_session", "change_session", "read_transcript"))
    page = act(client, "hold_selected", [session.id]).content.decode()
    assert ">Broken teapot (talk-7)</a>" in page


def test_a_hold_that_began_on_a_conversation_returns_there(officer, sessions):
    page = reverse("admin:agent_sessions_session_change", args=[sessions[0]])
    asked = act(officer, "hold_selected", sessions[:1], return_to=sessions[0]).content.decode()
    assert f'<input type="hidden" name="return_to" value="{sessions[0]}">' in asked
    assert f'href="{page}">No, take me back' in asked

    response = act(officer, "hold_selected", sessions[:1], reason="Case 7", return_to=sessions[0])
    assert (response.status_code, response["Location"]) == (302, page)
    assert held() == {sessions[0]}
    response = act(officer, "release_selected", sessions[:1], reason="x", return_to=sessions[1])
    assert response["Location"].startswith(reverse(LIST))
    assert held() == set()


@pytest.mark.parametrize("reason", ["", "   "])
def test_without_a_reason_nothing_is_held(officer, sessions, reason):
    response = act(officer, "hold_selected", sessions, reason=reason)

    assert "This field is required" in response.content.decode()
    assert held() == set()
    assert not AuditEvent.objects.exists()


def test_selected_sessions_are_held_and_released_and_both_recorded(officer, sessions):
    response = act(officer, "hold_selected", sessions[:2], reason="Case 7")
    assert response.status_code == 302
    assert held() == set(sessions[:2])

    act(officer, "release_selected", sessions[1:], reason="Case closed")
    assert held() == {sessions[0]}

    events = AuditEvent.objects.order_by("id")
    assert [(e.action, e.session, e.actor, e.reason) for e in events] == [
        ("held", sessions[1], "officer", "Case 7"),
        ("held", sessions[0], "officer", "Case 7"),
        ("released", sessions[1], "officer", "Case closed"),
    ]


@pytest.mark.parametrize(
    ("action", "told"),
    [
        ("hold_selected", "are already under legal hold"),
        ("release_selected", "none of the selected sessions is under legal hold"),
    ],
)
def test_an_action_that_makes_no_difference_says_so(officer, sessions, action, told):
    officer.get(act(officer, action, sessions[:1], reason="Case 7")["Location"])
    before = AuditEvent.objects.count()

    page = act(officer, action, sessions[:1], reason="Case 7")

    assert told in officer.get(page["Location"]).content.decode()
    assert AuditEvent.objects.count() == before


def test_everything_on_all_pages_cannot_be_held_at_once(officer, sessions):
    act(officer, "hold_selected", sessions[:1], reason="Case 7", select_across="1", index="0")

    assert held() == {sessions[0]}


@pytest.mark.parametrize("permission", ["delete_session", "read_transcript", "redact", "export"])
def test_who_may_not_change_sessions_cannot_hold_them(client, sessions, permission):
    client.force_login(staff("other", "view_session", permission))

    assert "hold_selected" not in client.get(reverse(LIST)).content.decode()
    act(client, "hold_selected", sessions, reason="Case 7")
    assert held() == set()


def test_an_action_goes_on_working_on_a_later_page_of_a_filtered_list(officer):
    many(60)
    first = officer.get(reverse(LIST), {"held": "no"}).content.decode()
    parameters = link(first, "next")
    chosen = listed(officer.get(reverse(LIST), parameters).content.decode())[:1]

    officer.post(
        f"{reverse(LIST)}?{urlencode(parameters)}",
        {"action": "hold_selected", "_selected_action": chosen, "reason": "Case 7"},
    )

    assert chosen
    assert chosen[0] not in listed(first)
    assert [str(key) for key in held()] == chosen
