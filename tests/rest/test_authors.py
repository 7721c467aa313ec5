"""A message that a participant wrote names its author to users, and to no link."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from django_agent_sessions.models import SessionMessage, ShareLink
from django_agent_sessions.models.sharing import hash_of
from django_agent_sessions.values.records import NewMessage
from django_agent_sessions.values.run_context import run_context
from tests.admin.people import staff

from .conftest import Talk, client_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def talk(ada, bob) -> Talk:
    talk = Talk(ada, "Where to?", "To Lisbon.")
    said = {"role": "user", "content": [{"text": "Or to Porto?"}]}
    talk.store.append(talk.agent, NewMessage(said, author=str(bob.pk)))
    return talk


def test_its_author_is_in_the_messages_of_a_session_and_alone(talk, ada, bob):
    client = client_of(ada)
    found = client.get(f"{talk.url}messages/").json()["results"]
    assert [message["author"] for message in found] == ["", "", str(bob.pk)]
    key = found[-1]["id"]
    assert client.get(f"/api/messages/{key}/").json()["author"] == str(bob.pk)


def test_every_user_is_named_by_the_same_text(talk, ada, bob):
    client = client_of(ada)
    body = {"user": str(bob.pk), "role": "writer"}
    assert client.post(f"{talk.url}participants/", body, format="json").status_code == 200

    (participant,) = client.get(f"{talk.url}participants/").json()["results"]
    message = client.get(f"{talk.url}messages/").json()["results"][-1]
    listed = client.get("/api/sessions/").json()["results"][0]
    assert participant["user"] == message["author"] == str(bob.pk)
    assert participant["added_by"] == listed["owner"] == str(ada.pk)
    assert client.get(talk.url).json()["owner"] == str(ada.pk)


def test_the_admin_shows_its_author(client, talk, bob):
    client.force_login(staff("reader", "view_session", "read_transcript"))
    url = reverse("admin:agent_sessions_session_change", args=[talk.session.id])
    page = client.get(url).content.decode()
    assert page.count(f"by user {bob.pk}") == 1


def test_a_share_link_does_not_name_it(client, talk, settings):
    settings.AGENT_SESSIONS = {"SHARE_LINKS": True}
    ShareLink.objects.create(
        session_id=talk.session.id,
        token_hash=hash_of("token"),
        expires_at=timezone.now() + timedelta(days=1),
    )
    answer = client.get("/api/shared/token/", {"format": "json"})
    assert answer.status_code == 200
    assert "Porto" in answer.content.decode()
    assert {message["author"] for message in answer.json()["results"]} == {""}


def test_what_an_agent_stores_for_a_participant_has_its_author_for_the_question_only(talk, bob):
    with run_context(author=str(bob.pk)):
        talk.say({"role": "user", "content": [{"text": "And then?"}]})
        talk.say({"role": "assistant", "content": [{"text": "To Faro."}]})
    talk.say({"role": "user", "content": [{"text": "Thanks"}]})
    rows = SessionMessage.objects.order_by("message_id").values_list("author", flat=True)
    assert [*rows][3:] == [str(bob.pk), "", ""]
