"""Feedback in the transcript and in the list: who gave it, and what of it who may see."""

from __future__ import annotations

import html
import re

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from django_agent_sessions.models import SessionMessage
from django_agent_sessions.store import SessionStore
from tests.admin.people import staff

pytestmark = pytest.mark.django_db


@pytest.fixture
def rated(ada, bob):
    store = SessionStore(owner=ada)
    agent = store.agents.open(store.open("s"))
    store.append_many(agent, [{"role": "assistant", "content": text} for text in ("One.", "Two.")])
    first, _second = SessionMessage.objects.order_by("message_id")
    store.feedback.save(first.pk, -1, comment="<b>plantedcomment</b>\nof Ada")
    store.feedback.save(first.pk, 1, source="reviewer", user=bob)
    store.feedback.save(first.pk, 0, comment="Unclear.", source="judge:v2", user="")
    store.feedback.save(first.pk, 1, source="reviewer", user="4711")
    return first


def page_of(client, message, *permissions):
    client.force_login(staff("clerk", "view_session", *permissions))
    url = reverse("admin:agent_sessions_session_change", args=[message.session_id])
    return client.get(url).content.decode()


def shown(page: str) -> list[str]:
    """The texts of the feedback on a page."""
    found = re.findall(r'<li class="as-feedback-(?:.*?)>(.*?)</li>', page, re.DOTALL)
    texts = [html.unescape(re.sub(r"<[^>]+>", " ", each)) for each in found]
    timeless = [re.sub(r"\d+-\d+-\d+ \d+:\d+ \w+", "@", each) for each in texts]
    return [re.sub(r"\s+", " ", each).strip() for each in timeless]


def test_it_shows_the_value_the_user_the_source_and_the_comment(client, rated):
    page = page_of(client, rated, "read_transcript")
    assert shown(page) == [
        "Bad ada user @ <b>plantedcomment</b> of Ada",
        "Good bob reviewer @",
        "Comment judge:v2 @ Unclear.",
        "Good deleted user 4711 reviewer @",
    ]
    entry = page.split(f'id="m-{rated.pk}"')[1].split('id="m-')[0]
    assert entry.count("as-feedback-value") == 4
    assert "<b>planted" not in page


def test_without_the_permission_to_read_comments_are_hidden(client, rated):
    page = page_of(client, rated)
    assert shown(page) == [
        "Bad ada user @ Comment hidden",
        "Good bob reviewer @",
        "Comment judge:v2 @ Comment hidden",
        "Good deleted user 4711 reviewer @",
    ]
    assert "plantedcomment" not in page


def statements(client, message) -> int:
    url = reverse("admin:agent_sessions_session_change", args=[message.session_id])
    client.get(url)
    with CaptureQueriesContext(connection) as captured:
        assert client.get(url).status_code == 200
    return len(captured)


def test_a_session_without_feedback_takes_no_statement_for_it(client, rated):
    client.force_login(get_user_model().objects.create_superuser("root"))
    with_feedback = statements(client, rated)
    store = SessionStore(owner=rated.session.owner)
    for one in store.feedback.list():
        assert store.feedback.delete(one.message, source=one.source, user=one.user)
    assert statements(client, rated) == with_feedback - 2


def test_a_page_shows_the_newest_of_very_much_feedback(client, rated, monkeypatch):
    monkeypatch.setattr("django_agent_sessions.admin.transcript.annotations.MAX_FEEDBACK", 2)
    assert [each.split()[0] for each in shown(page_of(client, rated, "read_transcript"))] == [
        "Comment",
        "Good",
    ]
