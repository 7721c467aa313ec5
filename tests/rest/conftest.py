"""People who call the API, and what they have said."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import pytest
from rest_framework.test import APIClient

from django_agent_sessions.models import SessionMessage
from django_agent_sessions.store import SessionStore
from tests.admin.transcripts import said

from .openapi import FILE
from .planted import Planted, plant_again


@cache
def statuses() -> list[tuple[re.Pattern[str], dict[str, set[str]]]]:
    """Gives the shape of each path in the OpenAPI document, and its statuses by method."""
    paths = json.loads(FILE.read_text(encoding="utf-8"))["paths"]
    # A path without names is the first to fit, as in the router.
    return [
        (
            re.compile(re.sub(r"\{\w+\}", "[^/]+", path)),
            {method.upper(): set(told["responses"]) for method, told in paths[path].items()},
        )
        for path in sorted(paths, key=lambda path: path.count("{"))
    ]


class DescribedClient(APIClient):
    """Takes no answer whose status the OpenAPI document does not have."""

    def request(self, **kwargs: Any) -> Any:
        answer = super().request(**kwargs)
        method, path = kwargs["REQUEST_METHOD"], kwargs["PATH_INFO"]
        known = next((told for shape, told in statuses() if shape.fullmatch(path)), {})
        status = str(answer.status_code)
        assert status in known.get(method, {status}), f"{method} {path} answers {status}"
        return answer


def client_of(user) -> APIClient:
    client = DescribedClient()
    client.force_login(user)
    return client


@pytest.fixture
def api(ada) -> APIClient:
    """The API as Ada uses it."""
    return client_of(ada)


@pytest.fixture
def stranger(bob) -> APIClient:
    return client_of(bob)


class Talk:
    """A session with an agent and its messages, and their URLs."""

    def __init__(self, owner, *texts: str, title: str = "A trip", **given) -> None:
        self.store = SessionStore(owner=owner)
        self.session = self.store.create(given.pop("session_id", "trip"), title=title, **given)
        self.agent = self.store.agents.open(self.session, "concierge", dialect="strands")
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


@pytest.fixture
def planted(ada, settings) -> Planted:
    """Ada's session with a secret in each place, and a redacted message."""
    settings.AGENT_SESSIONS = {"SHARE_LINKS": True}
    return plant_again(ada)
