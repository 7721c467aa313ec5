"""What a legal hold keeps, in the admin: for a reason, newest first, and never too much of it."""

from __future__ import annotations

import pytest
from django.urls import reverse

from django_agent_sessions.governance import legal_hold
from django_agent_sessions.models import HeldCopy, Session

pytestmark = pytest.mark.django_db


@pytest.fixture
def url(store) -> str:
    session = store.open("held")
    legal_hold.hold(session.id, reason="case 1")
    return reverse("admin:agent_sessions_session_held", args=[session.id])


def keep(**content: str) -> None:
    HeldCopy.objects.create(
        session=Session.objects.get(), kind="agent", row=Session.objects.get().pk, content=content
    )


def test_there_is_no_page_where_nothing_is_kept(admin_client, url):
    assert admin_client.get(url).status_code == 404


def test_copies_are_shown_page_by_page(admin_client, url):
    for number in range(25):
        keep(state=f"planted{number:02}")

    assert "planted" not in admin_client.get(url).content.decode()
    first = admin_client.post(url, {"reason": "Ticket 7"})
    older = {"reason": "Ticket 7", "before": first.context["older"]}
    second = admin_client.post(url, older).content.decode()
    shown = first.content.decode()
    assert [number for number in range(25) if f"planted{number:02}" in shown] == [*range(5, 25)]
    assert [number for number in range(25) if f"planted{number:02}" in second] == [*range(5)]


def test_a_large_copy_is_cut_and_the_page_says_so(admin_client, url):
    keep(state="x" * 1_000_000)

    page = admin_client.post(url, {"reason": "Ticket 7"}).content.decode()
    assert "Shortened from 1000012 characters." in page
    assert len(page) < 300_000


def test_what_a_message_said_is_seen_without_a_click(store, admin_client, url):
    agent = store.agents.open(store.get("held"), dialect="strands")
    store.append(agent, {"role": "user", "content": [{"text": "planted"}]})
    store.messages.update(agent, 0, {"role": "user", "content": [{"text": "other"}]})

    page = admin_client.post(url, {"reason": "Ticket 7"}).content.decode()
    assert "planted" in page
    assert '<details class="as-json">' not in page
