"""Feedback through the API: own sessions, others by permission, everything else a 404."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission

from django_agent_sessions import SessionStore
from django_agent_sessions.models import AuditEvent, MessageFeedback, SessionMessage

pytestmark = pytest.mark.django_db
API = "/api/"


def user_with(name, *codenames):
    user = get_user_model().objects.create(username=name)
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    return user


def message_of(user):
    store = SessionStore(owner=user)
    store.append(store.agents.open(store.open("s-1")), {"role": "assistant", "content": "Lisbon."})
    return SessionMessage.objects.get()


def url_of(message, query=""):
    return f"{API}messages/{message.pk}/feedback/{query}"


def put(client, message, body, query=""):
    return client.put(url_of(message, query), body, content_type="application/json")


def test_an_owner_rates_changes_lists_and_withdraws(client):
    ada = user_with("ada")
    message = message_of(ada)
    client.force_login(ada)
    first = put(client, message, {"value": 1})
    second = put(client, message, {"value": -1, "comment": "<b>No</b>"})
    assert (first.status_code, second.status_code) == (200, 200)
    assert second.json() == {
        **first.json(),
        "value": -1,
        "comment": "<b>No</b>",
        "updated_at": second.json()["updated_at"],
    }
    assert second.json()["source"] == "user"
    listed = client.get(f"{API}sessions/{message.session_id}/feedback/").json()
    assert listed["results"] == [second.json()]
    assert client.delete(url_of(message)).status_code == 204
    assert client.delete(url_of(message)).status_code == 204
    assert not MessageFeedback.objects.exists()
    assert not AuditEvent.objects.exists()


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"value": 2},
        {"value": "1"},
        {"value": 1, "who": "x"},
        {"value": 1, "comment": "x" * 4001},
    ],
)
def test_invalid_feedback_is_refused(client, body):
    ada = user_with("ada")
    message = message_of(ada)
    client.force_login(ada)
    assert put(client, message, body).status_code == 400
    assert not MessageFeedback.objects.exists()


READ = ("view_session", "read_transcript")


@pytest.mark.parametrize(
    ("codenames", "query", "status"),
    [
        ((), "", 404),
        (READ, "", 404),
        (READ, "?scope=all", 404),
        (("add_messagefeedback",), "?scope=all", 404),
        ((*READ, "add_messagefeedback"), "?scope=all", 200),
    ],
)
def test_others_rate_by_permission(client, codenames, query, status):
    message = message_of(user_with("ada"))
    client.force_login(user_with("bob", *codenames))
    answer = put(client, message, {"value": -1, "comment": "Rude."}, query)
    assert answer.status_code == status
    assert client.delete(url_of(message, query)).status_code == (204 if status == 200 else 404)
    if status == 200:
        assert answer.json()["source"] == "reviewer"
        assert AuditEvent.objects.get(details__view="feedback").target == message.pk


def test_an_owner_does_not_see_what_reviewers_wrote(client):
    ada, bob = user_with("ada"), user_with("bob", *READ, "add_messagefeedback")
    message = message_of(ada)
    client.force_login(bob)
    put(client, message, {"value": -1, "comment": "Rude user."}, "?scope=all")
    feedback = f"{API}sessions/{message.session_id}/feedback/"
    assert len(client.get(f"{feedback}?scope=all").json()["results"]) == 1
    client.force_login(ada)
    assert client.get(feedback).json()["results"] == []
    for form in ("markdown", "jsonl"):
        exported = client.get(f"{API}sessions/{message.session_id}/export/?as={form}")
        assert b"Rude user." not in b"".join(exported.streaming_content)


def test_a_legal_hold_is_a_conflict(client):
    ada = user_with("ada")
    message = message_of(ada)
    client.force_login(ada)
    put(client, message, {"value": 1})
    message.session.legal_hold = True
    message.session.save()
    assert put(client, message, {"value": -1}).status_code == 409
    assert client.delete(url_of(message)).status_code == 409
    assert MessageFeedback.objects.get().value == 1
