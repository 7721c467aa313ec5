"""What a run sends after a conversation was cut: what OpenAI's API does not refuse."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from itertools import filterfalse
from typing import Any

import pytest
from agents import RunConfig, Runner, SessionSettings

from django_agent_sessions.adapters.openai_agents import AdvancedDjangoSession, DjangoSession
from django_agent_sessions.governance.redaction import WholeMessage, redact
from django_agent_sessions.models import SessionMessage
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.records import AgentRecord

from .refusals import (
    CONVERSATION,
    answers,
    asks,
    calls,
    refusals,
    says,
    searches,
    thinks,
)
from .team import assistant, requests

pytestmark = pytest.mark.django_db(transaction=True)

CUTS = range(len(CONVERSATION))
REASONING = [index for index, item in enumerate(CONVERSATION) if item.get("type") == "reasoning"]


@pytest.fixture(params=[DjangoSession, AdvancedDjangoSession])
def session_class(request) -> type[DjangoSession]:
    asyncio.run(request.param("s").add_items(CONVERSATION))
    return request.param  # type: ignore[no-any-return] # one of both


def sent_by(session: DjangoSession, **options: Any) -> list[Any]:
    """Runs an agent, and returns what its model was sent of the conversation."""
    agent = assistant()
    asyncio.run(Runner.run(agent, "next", session=session, run_config=RunConfig(**options)))
    *sent, new = requests(agent)[0]
    assert new == asks("next")
    return sent


def is_sent(sent: list[Any], item: dict[str, Any]) -> bool:
    """Whether an item is sent, with its id or without."""
    return item in sent or {name: item[name] for name in item if name != "id"} in sent


def main(session_id: str = "s") -> AgentRecord:
    store = SessionStore()
    return store.agents.list(store.get(session_id))[0]


def _rewind(to: int) -> str:
    SessionStore().branches.rewind(main(), to)
    return "s"


def _set_aside(to: int) -> str:
    SessionStore().branches.set_aside(main(), to)
    return "s"


def _fork(to: int) -> str:
    store = SessionStore()
    key = SessionMessage.objects.get(agent=main().id, message_id=to).pk
    return store.sessions.fork(store.get("s"), at=key).session_id


def _switch(to: int) -> str:
    branches = SessionStore().branches
    branch = branches.create(main(), upto=to + 1)
    branches.switch(main(), branch.number)
    return "s"


def _pop(to: int) -> str:
    for _ in range(len(CONVERSATION) - 1 - to):
        asyncio.run(DjangoSession("s").pop_item())
    return "s"


def _delete_later(to: int) -> str:
    SessionMessage.objects.filter(agent=main().id, message_id__gt=to).delete()
    return "s"


@pytest.mark.parametrize("cut", [_rewind, _set_aside, _fork, _switch, _pop, _delete_later])
def test_a_conversation_that_was_cut_anywhere_is_accepted(session_class, cut: Callable[[int], str]):
    for to in reversed(CUTS):
        session_id = cut(to)

        sent = sent_by(session_class(session_id))

        assert refusals(sent) == []
        assert [item for item in sent if item not in CONVERSATION and "id" in item] == []
        # Only a call without a result, and reasoning, are left out.
        missing = list(filterfalse(partial(is_sent, sent), CONVERSATION[: to + 1]))
        assert {item.get("type") for item in missing} <= {"function_call", "reasoning"}
        assert len(missing) <= 3
        asyncio.run(session_class("s").clear_session())
        asyncio.run(session_class("s").add_items(CONVERSATION))


@pytest.mark.parametrize("given", ["to the session", "to the run"])
def test_a_limit_anywhere_is_accepted(session_class, given):
    for count in range(1, len(CONVERSATION) + 1):
        settings = SessionSettings(limit=count)
        asyncio.run(session_class("s").clear_session())
        asyncio.run(session_class("s").add_items(CONVERSATION))
        if given == "to the session":
            sent = sent_by(session_class("s", session_settings=settings))
        else:
            sent = sent_by(session_class("s"), session_settings=settings)

        assert refusals(sent) == []
        assert len(sent) >= count - 4


def test_a_message_that_a_limit_cut_from_its_reasoning_is_sent_without_its_id():
    session = DjangoSession("s", session_settings=SessionSettings(limit=2))
    message = says("one", "0")
    asyncio.run(session.add_items([asks("a"), thinks("0"), message, asks("b")]))

    assert sent_by(session) == [
        {name: value for name, value in message.items() if name != "id"},
        asks("b"),
    ]
    # The row is as the model wrote it.
    assert message in asyncio.run(session.get_items(4))


def test_a_message_that_never_had_reasoning_keeps_its_id_at_a_limit():
    session = DjangoSession("s", session_settings=SessionSettings(limit=1))
    asyncio.run(session.add_items([asks("a"), says("one", "0")]))

    assert sent_by(session) == [says("one", "0")]


def test_a_search_that_a_limit_cut_from_its_reasoning_is_left_out():
    """The API requires its id, and with it the reasoning."""
    session = DjangoSession("s", session_settings=SessionSettings(limit=2))
    asyncio.run(session.add_items([asks("a"), thinks("2"), searches("2"), says("one", "0")]))

    assert [item.get("content", [{}])[0].get("text") for item in sent_by(session)] == ["one"]


@pytest.mark.parametrize("position", CUTS)
def test_a_conversation_without_one_of_its_messages_is_accepted(position):
    asyncio.run(DjangoSession("s").add_items(CONVERSATION))
    SessionMessage.objects.get(agent=main().id, message_id=position).delete()

    assert [line for line in refusals(sent_by(DjangoSession("s"))) if "tool call" not in line] == []


@pytest.mark.parametrize("position", CUTS)
def test_a_conversation_with_a_redacted_message_is_accepted(position):
    asyncio.run(DjangoSession("s").add_items(CONVERSATION))
    message = SessionMessage.objects.get(agent=main().id, message_id=position)
    redact(message.session_id, WholeMessage(message.pk), reason="test", actor="test")

    sent = sent_by(DjangoSession("s"))

    assert refusals(sent) == []
    kept = [item for item in CONVERSATION if item in sent]
    assert len(kept) >= len(CONVERSATION) - 4
    # The provider has what it thought in full, by the id.
    if position in REASONING:
        assert CONVERSATION[position]["id"] not in [item.get("id") for item in sent]


def test_a_corrupt_row_takes_the_reasoning_before_it_along(capsys):
    asyncio.run(DjangoSession("s").add_items([asks("a"), thinks("0"), says("one", "0"), asks("b")]))
    damage(2)

    assert sent_by(DjangoSession("s")) == [asks("a"), asks("b")]


def damage(position: int) -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE agent_sessions_sessionmessage SET message = %s WHERE message_id = %s",
            ["{", position],
        )


def test_a_reader_outside_of_a_run_gets_what_is_stored(session_class):
    _rewind(4)

    assert asyncio.run(session_class("s").get_items()) == CONVERSATION[:5]


def test_results_in_the_forms_of_the_sdk_and_of_the_api_are_recognized():
    shell: Any = {
        "type": "local_shell_call",
        "id": "ls_1",
        "call_id": "c",
        "action": {"type": "exec"},
    }
    of_api: Any = {"type": "local_shell_call_output", "id": "c", "output": "done"}
    found: Any = {"type": "tool_search_output", "call_id": "t", "tools": []}
    asyncio.run(DjangoSession("s").add_items([asks("a"), shell, of_api, found, answers("gone")]))

    sent = sent_by(DjangoSession("s"))

    assert of_api in sent
    assert found not in sent
    assert answers("gone") not in sent


def test_reasoning_whose_parallel_call_waits_is_decided_by_what_follows_it():
    asyncio.run(DjangoSession("s").add_items([asks("a"), thinks("1"), calls("c1"), calls("c2")]))
    asyncio.run(DjangoSession("s").add_items([answers("c2")]))

    # The SDK's Runner leaves out the call without a result, and the reasoning with it.
    assert "c1" not in str(sent_by(DjangoSession("s")))
