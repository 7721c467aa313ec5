"""A redacted conversation goes on: what the next run gives to the model is valid."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from agents import Runner
from openai.types.responses import ResponseInputItemParam
from pydantic import TypeAdapter

from django_agent_sessions.adapters.openai_agents import DjangoSession
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

from .scripted import call
from .team import assistant, requests, texts

pytestmark = pytest.mark.django_db(transaction=True)

SCOPES: dict[str, Callable[[list[SessionMessage]], Scope]] = {
    "a user's message": lambda m: WholeMessage(m[0].pk),
    "a tool call": lambda m: WholeMessage(m[1].pk),
    "a tool's output": lambda m: WholeMessage(m[2].pk),
    "an answer": lambda m: WholeMessage(m[3].pk),
    "a call's arguments": lambda m: Block(m[1].pk, ("arguments",)),
    "an output": lambda m: Block(m[2].pk, ("output",)),
    "a block of an answer": lambda m: Block(m[3].pk, ("content", 0)),
    "a span of arguments": lambda m: Span(m[1].pk, ("arguments",), 2, 9),
    "a string everywhere": lambda m: Find("plantedsecret"),
    "the call's own id": lambda m: Find(m[1].message["call_id"]),
    "detections": lambda m: Detect(("email",)),
}


@pytest.mark.parametrize("name", list(SCOPES))
def test_the_next_run_goes_on(name):
    agent = assistant(call("register", name="plantedsecret"), "Registered plantedsecret.")
    prompt = "Register plantedsecret, ada@example.com"
    asyncio.run(Runner.run(agent, prompt, session=DjangoSession("s")))
    rows = list(SessionMessage.objects.order_by("message_id"))
    scope = SCOPES[name](rows)

    found = redact(rows[0].session_id, scope, reason="A request")

    assert found.messages >= 1
    again = assistant("Good.")
    result = asyncio.run(Runner.run(again, "Thanks", session=DjangoSession("s")))
    heard: list[Any] = requests(again)[0]
    assert result.final_output == "Good."
    assert texts(heard)[-1] == "Thanks"
    calls = [item["call_id"] for item in heard if item.get("type") == "function_call"]
    answers = [item["call_id"] for item in heard if item.get("type") == "function_call_output"]
    assert calls == answers != []
    for item in heard:
        TypeAdapter(ResponseInputItemParam).validate_python(item)
    if name == "a string everywhere":
        assert "plantedsecret" not in str(heard)
