"""The most expensive requests of an ordinary user take a bounded amount of memory.

Sessions of more than the limits, a hundred threads with the most metadata that a client can send,
and bodies as large as is accepted, of the values that take most memory when they are parsed.
"""

from __future__ import annotations

import gc
import json
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib.auth import get_user_model
from django.core.cache import cache
from django.test import Client

from django_agent_sessions import conf
from django_agent_sessions.content import dialects
from django_agent_sessions.content.json_values import has_more_values
from django_agent_sessions.models import Session, SessionAgent, SessionMessage
from django_agent_sessions.rest.parsers import StrictJSONParser
from django_agent_sessions.store import SessionStore

MOST_MEMORY = 64 * 1024 * 1024
MESSAGES, TEXT_BYTES = 120, 100_000

_MOST_VALUES = StrictJSONParser.max_values
_WORD = "lorem ipsum needle dolor "


def fill(owner: Any) -> dict[str, str]:
    """Create what the requests are about; return the keys."""
    store = SessionStore(owner=owner)
    large = store.create("large", title="large")
    agent = store.agents.open(large, "a", dialect="strands")
    text = _WORD * (TEXT_BYTES // len(_WORD))
    SessionMessage.objects.bulk_create(
        [
            SessionMessage(
                session_id=large.id,
                agent_id=agent.id,
                message_id=number,
                message={"role": ("user", "assistant")[number % 2], "content": [{"text": text}]},
                role=("user", "assistant")[number % 2],
                text=text,
            )
            for number in range(MESSAGES)
        ],
        batch_size=50,
    )
    thread = store.create("thread", title="thread")
    client = store.agents.open(thread, "assistant-ui", dialect=dialects.ASSISTANT_UI)
    store.append_many(client, [_ui(str(number), text * 4) for number in range(25)])
    metadata = {"a": "x" * (conf.get_settings().MAX_METADATA_BYTES - 20)}
    Session.objects.bulk_create(
        [
            Session(session_id=f"s{number}", owner=owner, title="a", metadata=metadata)
            for number in range(100)
        ],
        batch_size=20,
    )
    return {
        "large": str(large.id),
        "thread": str(thread.id),
        "agent": str(SessionAgent.objects.get(pk=agent.id).pk),
    }


def _ui(name: str, text: str) -> dict[str, Any]:
    content = {"id": name, "role": "user", "parts": [{"type": "text", "text": text}]}
    return {
        "id": name,
        "content_digest": "0" * 64,
        "parent_id": None,
        "format": "ai-sdk/v6",
        "content": content,
    }


def full_body(start: str, piece: str, end: str) -> str:
    """Return a body with as many values, or as many bytes, as are accepted."""
    room = django_settings.DATA_UPLOAD_MAX_MEMORY_SIZE - len(start) - len(end)
    values = sum(piece.count(each) for each in ",[{")
    return start + piece * min(room // len(piece), (_MOST_VALUES - 20) // values) + end


def worst(keys: dict[str, str]) -> Iterator[tuple[str, str, str, str | None]]:
    """Yield name, method, path and body of each request."""
    session, thread = f"/api/sessions/{keys['large']}/", f"/v1/threads/{keys['thread']}"
    yield "search all sessions", "get", "/api/sessions/?q=nothing-has-this", None
    yield "search a session", "get", f"{session}messages/?q=nothing-has-this", None
    yield "a page of messages", "get", f"{session}messages/?limit=200&raw=true", None
    yield "a page of threads", "get", "/v1/threads?limit=100", None
    yield "messages of a thread", "get", f"{thread}/messages?limit=200", None
    server = f"/v1/threads/{keys['large']}/messages?limit=200"
    yield "messages of the server", "get", server, None
    yield "messages of a chat", "get", f"/chat/{keys['large']}/messages?limit=200", None
    yield "an export as Markdown", "get", f"{session}export/?as=markdown", None
    yield "an export as JSON Lines", "get", f"{session}export/?as=jsonl", None
    yield "usage", "get", f"{session}usage/", None
    yield "a fork", "post", f"{session}fork/", "{}"
    yield "a branch", "post", f"/api/agents/{keys['agent']}/branches/", "{}"
    text = f'"{"x" * 49_000}",'
    for name, piece in (("objects", '{"a":{}},'), ("texts", text)):
        metadata = full_body('{"metadata": {"a": [', piece, "0]}}")
        yield f"metadata of {name}", "post", "/api/sessions/", metadata
        content = full_body(
            '{"format": "ai-sdk/v6", "content": {"role": "user", "parts": [', piece, "0]}}"
        )
        yield f"a message of {name}", "post", f"{thread}/messages", content
        message = full_body('{"id": "new", "messages": [', piece, "0]}")
        yield f"a chat of {name}", "post", "/chat", message


def send(client: Client, method: str, path: str, body: str | None) -> int:
    """Send a request, read the response piece by piece, and return its status."""
    send_request: Callable[..., Any] = getattr(client, method)
    response = (
        send_request(path)
        if body is None
        else send_request(path, body, content_type="application/json")
    )
    if response.streaming:
        for _ in response.streaming_content:
            pass
    return int(response.status_code)


@pytest.mark.django_db
def test_a_body_of_more_values_than_are_accepted_is_refused_before_it_is_parsed(ada) -> None:
    client = Client()
    client.force_login(ada)
    body = '{"metadata": {"a": [' + "[]," * 800_000 + "0]}}"
    tracemalloc.start()
    response = client.post("/api/sessions/", body, content_type="application/json")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert response.status_code == 413
    assert f"at most {_MOST_VALUES}" in response.json()["detail"]
    assert peak < 16 * 1024 * 1024


def test_only_members_and_items_count_as_values() -> None:
    text = json.dumps({"a": '[]{},"\\' * 100, "b": [1, 2]}).encode()
    # The object, its two members, the list and its two items, where the first need no comma.
    assert not has_more_values(text, 4)
    assert has_more_values(text, 3)
    assert not has_more_values(b'"' + b"," * 100, 100)
    assert has_more_values(b'"unterminated' + b"," * 101, 100)


# Some seconds: 20 MB are written, and read by most of the requests.
@pytest.mark.large
@pytest.mark.django_db
def test_no_request_takes_more_than_64_megabytes(settings) -> None:
    settings.ROOT_URLCONF = "tests.rest.whole_site"
    cache.clear()
    ada = get_user_model().objects.create_user("ada")
    keys = fill(ada)
    client = Client()
    client.force_login(ada)
    peaks = {}
    for name, method, path, body in worst(keys):
        gc.collect()
        tracemalloc.start()
        status = send(client, method, path, body)
        peaks[name] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert status in (200, 201, 400, 413), (name, status)
    cache.clear()
    assert {name: peak for name, peak in peaks.items() if peak > MOST_MEMORY} == {}
