"""A redacted conversation goes on: the restored agent's next call of the model is valid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from django_agent_sessions.governance.redaction import (
    Block,
    Detect,
    Find,
    Scope,
    Span,
    WholeMessage,
    redact,
)
from django_agent_sessions.models import SessionMessage

from .agents import build, requests, texts
from .scripted import call

pytestmark = pytest.mark.django_db

SCOPES: dict[str, Callable[[list[SessionMessage]], Scope]] = {
    "a user's message": lambda m: WholeMessage(m[0].pk),
    "a tool call": lambda m: WholeMessage(m[1].pk),
    "a tool's result": lambda m: WholeMessage(m[2].pk),
    "an answer": lambda m: WholeMessage(m[3].pk),
    "a tool call's block": lambda m: Block(m[1].pk, ("content", 0)),
    "a result's block": lambda m: Block(m[2].pk, ("content", 0)),
    "what a result holds": lambda m: Block(m[2].pk, ("content", 0, "toolResult", "content", 0)),
    "a span": lambda m: Span(m[0].pk, ("content", 0, "text"), 0, 3),
    "a string everywhere": lambda m: Find("plantedsecret"),
    "the call's own id": lambda m: Find(m[1].message["content"][0]["toolUse"]["toolUseId"]),
    "a pattern": lambda m: Find(r"planted\w+", pattern=True),
    "detections": lambda m: Detect(("email",)),
}


@pytest.mark.parametrize("name", list(SCOPES))
def test_the_restored_agent_goes_on(name):
    agent = build(call("add", a=1, b=2), "It is 3, plantedsecret.")
    agent("Add 1 and 2, says plantedsecret ada@example.com")
    messages = list(SessionMessage.objects.order_by("message_id"))
    scope = SCOPES[name](messages)

    found = redact(messages[0].session_id, scope, reason="A request")

    assert found.messages >= 1
    again = build("Good.")
    again("Thanks")
    heard = requests(again)[0]
    expect_valid(heard)
    assert texts(heard)[-1] == "Thanks"
    if name == "a string everywhere":
        assert "plantedsecret" not in str(heard)
    assert build().messages == again.messages


def expect_valid(messages: list[Any]) -> None:
    """Roles take turns, and each call is answered by the next message."""
    roles = [message["role"] for message in messages]
    assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]
    for position, message in enumerate(messages):
        assert message["content"]
        calls = [b["toolUse"]["toolUseId"] for b in message["content"] if "toolUse" in b]
        if calls:
            answers = [
                b["toolResult"]["toolUseId"]
                for b in messages[position + 1]["content"]
                if "toolResult" in b
            ]
            assert answers == calls
        assert all(block.get("text", "x").strip() for block in message["content"])
