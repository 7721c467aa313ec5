"""What an agent of Strands says, gets and keeps comes back exactly, whatever JSON it is."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from strands.types.session import Session, SessionAgent, SessionType

from django_agent_sessions.adapters.strands import DjangoSessionRepository
from django_agent_sessions.exceptions import PayloadError
from django_agent_sessions.models import SessionMessage
from tests.strategies import exactly, json_values
from tests.texts import text_of

from .agents import build, manager_of

any_json = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@any_json
@given(value=json_values)
def test_a_message_comes_back_exactly(db, value):
    """A tool's result by the manager: written in a running loop, restored by another agent."""
    if (repository := DjangoSessionRepository()).read_session("s") is not None:
        repository.delete_session("s")
    agent = build()
    result = {"toolUseId": "1", "status": "success", "content": [{"json": value}]}
    call = {"toolUse": {"toolUseId": "1", "name": "any", "input": {"value": value}}}
    messages: list[Any] = [
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [{"toolResult": result}]},
    ]

    async def run() -> None:
        for message in copy.deepcopy(messages):
            await agent._append_messages(message)

    asyncio.run(run())

    restored = [{"role": m["role"], "content": m["content"]} for m in build().messages]
    assert exactly(restored) == exactly(messages)


@any_json
@given(value=json_values)
def test_a_state_comes_back_exactly(db, value):
    repository = DjangoSessionRepository()
    if repository.read_session("s") is None:
        repository.create_session(Session("s", SessionType.AGENT))
        repository.create_agent("s", SessionAgent("a", {}, {}))
    repository.update_agent("s", SessionAgent("a", {"v": value}, {"m": value}, {"i": value}))

    found = repository.read_agent("s", "a")

    assert found is not None
    kept = [found.state, found.conversation_manager_state, found._internal_state]
    assert exactly(kept) == exactly([{"v": value}, {"m": value}, {"i": value}])


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "value", [{(1,): "a"}, object(), 10**4300], ids=["key", "object", "integer"]
)
def test_what_is_over_a_limit_leaves_the_caller_s_transaction_usable(value):
    agent = build()
    message: Any = {"role": "user", "content": [{"text": "x"}, {"json": value}]}

    with transaction.atomic():
        agent("before")
        with pytest.raises(PayloadError):
            manager_of(agent).append_message(message, agent)
        agent("after")

    texts = [text_of(m) for m in SessionMessage.objects.order_by("message_id") if m.role == "user"]
    assert texts == ["before", "after"]
