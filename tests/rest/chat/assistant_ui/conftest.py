"""A site for assistant-ui, and people who ask it as the client does."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest
from django.test import Client

from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.rest.chat.assistant_ui.views import AssistantUIView
from tests.rest.chat.assistant_ui.bearer import BearerAuthentication, token_for

V6 = "ai-sdk/v6"


@pytest.fixture(autouse=True)
def _site(settings, monkeypatch):
    settings.ROOT_URLCONF = "tests.rest.chat.assistant_ui.urls"
    monkeypatch.setattr(AssistantUIView, "authentication_classes", [BearerAuthentication])


def ui(role: str, *parts: Any, **more: Any) -> dict[str, Any]:
    """A message of the AI SDK, as assistant-ui encodes it: without its id."""
    said = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
    return {"role": role, "parts": said, **more}


class Cloud:
    """What ``AssistantCloud`` sends, over Django's test client."""

    def __init__(self, user: Any) -> None:
        self.headers = {"Authorization": f"Bearer {token_for(user)}"} if user else {}
        self.client = Client(headers=self.headers)

    def ask(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """Asks; ``body`` is JSON, or text as it is."""
        data = body if isinstance(body, str | bytes) else json.dumps(body)
        sent = {} if body is None else {"data": data, "content_type": "application/json"}
        return getattr(self.client, method)(f"/v1/{path}", query_params=query, **sent)

    def get(self, path: str, **query: Any) -> Any:
        answer = self.ask("get", path, **query)
        assert answer.status_code == 200, answer.content
        return answer.json()

    def thread(self, **body: Any) -> str:
        answer = self.ask("post", "threads", {"last_message_at": "2026-01-01T00:00:00.000Z"} | body)
        assert answer.status_code in (200, 201), answer.content
        return str(answer.json()["thread_id"])

    def send(
        self, thread: str, content: Any, parent: str | None = None, form: str = V6, **more: Any
    ) -> Any:
        body = {"parent_id": parent, "format": form, "content": content, **more}
        return self.ask("post", f"threads/{thread}/messages", body)

    def say(
        self, thread: str, content: Any, parent: str | None = None, form: str = V6, **more: Any
    ) -> str:
        answer = self.send(thread, content, parent, form, **more)
        assert answer.status_code == 200, answer.content
        return str(answer.json()["message_id"])

    def change(self, thread: str, message: str, content: Any) -> Any:
        return self.ask("put", f"threads/{thread}/messages/{message}", {"content": content})

    def messages(self, thread: str, **query: Any) -> list[dict[str, Any]]:
        return list(self.get(f"threads/{thread}/messages", **query)["messages"])


@pytest.fixture
def cloud(ada) -> Cloud:
    return Cloud(ada)


@pytest.fixture
def strangers_cloud(bob) -> Cloud:
    return Cloud(bob)


@pytest.fixture
def thread(cloud: Cloud) -> str:
    return cloud.thread()


def rows(thread: str) -> list[SessionMessage]:
    return list(SessionMessage.objects.filter(session=UUID(thread)).order_by("message_id"))


def session_of(thread: str) -> Session:
    return Session.objects.get(pk=thread)
