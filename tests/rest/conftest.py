"""People who call the API, and what they have said."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from django_agent_sessions.models import SessionMessage
from django_agent_sessions.store import SessionStore


def client_of(user) -> APIClient:
    client = APIClient()
    client.force_login(user)
    return client


@pytest.fixture
def api(ada) -> APIClient:
    """The API as Ada uses it."""
    return client_of(ada)


@pytest.fixture
def stranger(bob) -> APIClient:
    return client_of(bob)


def said(role: str, text: str) -> dict:
    return {"role": role, "content": [{"text": text}]}


class Talk:
    """A session with an agent and its messages, and their URLs."""

    def __init__(self, owner, *texts: str, title: str = "A trip", **given) -> None:
        self.store = SessionStore(owner=owner)
        self.session = self.store.create(given.pop("session_id", "trip"), title=title, **given)
        self.agent = self.store.open_agent(self.session, "concierge", dialect="strands")
        for number, text in enumerate(texts):
            self.say(said("user" if number % 2 == 0 else "assistant", text))

    def say(self, payload) -> str:
        return f"/api/messages/{self.store.append(self.agent, payload).id}/"

    @property
    def url(self) -> str:
        return f"/api/sessions/{self.session.id}/"

    @property
    def messages(self) -> list[str]:
        rows = SessionMessage.objects.filter(session=self.session.id).order_by("message_id")
        return [f"/api/messages/{key}/" for key in rows.values_list("pk", flat=True)]


def listed(api: Any, talk: Talk, **query: Any) -> dict[str, Any]:
    """A page of the messages of a session."""
    answer = api.get(f"{talk.url}messages/", query)
    assert answer.status_code == 200, answer.content
    page: dict[str, Any] = answer.json()
    return page


@pytest.fixture
def trip(ada) -> Talk:
    return Talk(ada, "Where to?", "To Lisbon.", "My card is 4111 1111 1111 1111.", "Thanks.")
