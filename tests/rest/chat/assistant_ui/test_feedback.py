"""The client's ratings: of its own messages and of the server's, one for each user."""

from __future__ import annotations

import pytest

from django_agent_sessions.models import MessageFeedback, Session
from django_agent_sessions.store import SessionStore
from tests.rest.chat.assistant_ui.conftest import rows, ui

pytestmark = pytest.mark.django_db


def rate(cloud, thread, message, **body):
    return cloud.ask("post", f"threads/{thread}/messages/{message}/feedback", body)


def test_a_message_of_the_client_is_rated_once(cloud, thread, ada):
    name = cloud.say(thread, ui("assistant", "To Lisbon.", id="a/b c"))
    first = rate(cloud, thread, "a%2Fb%20c", type="positive")
    second = rate(cloud, thread, "a%2Fb%20c", type="negative", comment="Too far.")
    assert name == "a/b c"
    assert (first.status_code, second.status_code) == (200, 200)
    row = MessageFeedback.objects.get()
    assert second.json() == {
        "feedback_id": str(row.pk),
        "type": "negative",
        "comment": "Too far.",
    }
    assert (row.message, row.value, row.user) == (rows(thread)[0], -1, str(ada.pk))


def test_a_message_of_the_server_is_rated(cloud, thread, ada):
    store = SessionStore(owner=ada)
    session = store.get(Session.objects.get(pk=thread).session_id)
    message = store.append(store.agents.open(session), {"role": "assistant", "content": "Porto."})
    assert rate(cloud, thread, message.id, type="positive").status_code == 200
    assert MessageFeedback.objects.get().message_id == message.id


@pytest.mark.parametrize(
    "body", [{}, {"type": "neutral"}, {"type": "positive", "comment": "x" * 4001}]
)
def test_other_bodies_are_refused(cloud, thread, body):
    name = cloud.say(thread, ui("assistant", "To Lisbon."))
    assert rate(cloud, thread, name, **body).status_code == 400
    assert not MessageFeedback.objects.exists()


def test_strangers_and_unknown_messages_are_not_found(cloud, strangers_cloud, thread):
    name = cloud.say(thread, ui("assistant", "To Lisbon."))
    assert rate(strangers_cloud, thread, name, type="positive").status_code == 404
    assert rate(cloud, thread, "other", type="positive").status_code == 404
    assert not MessageFeedback.objects.exists()
