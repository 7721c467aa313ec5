"""Tools that use the ORM by ``run_orm`` and ``arun_orm``, and agents that call agents."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth import get_user_model
from django.db import connections, transaction

from django_agent_sessions.db.bridge import arun_orm, joined, run_orm

from .chats import Call, said, turns
from .conftest import run_in_thread

pytestmark = pytest.mark.django_db(transaction=True)


def names() -> str:
    return ", ".join(sorted(user.username for user in get_user_model().objects.all()))


def users(new: str) -> str:
    """Adds a user and lists all.

    Args:
        new: The name of the one to add.
    """
    run_orm(get_user_model().objects.create_user, new)
    return run_orm(names)


async def users_async(new: str) -> str:
    """Adds a user and lists all.

    Args:
        new: The name of the one to add.
    """
    await arun_orm(get_user_model().objects.create_user, new)
    return await arun_orm(names)


users_async.__name__ = "users"

TOOLS = {"sync": users, "async": users_async}
STEPS = [Call("users", {"new": "bob"}), "done"]


@pytest.fixture(params=list(TOOLS))
def tool(request):
    return TOOLS[request.param]


def results(session_id: str) -> list[str]:
    """What the tools of a session returned, as the database has it."""
    from django_agent_sessions.models import SessionMessage

    found = []
    for message in SessionMessage.objects.filter(session__session_id=session_id):
        payload = message.message
        if payload.get("type") == "function_call_output":
            found.append(payload["output"])
        for block in payload.get("content", ()):
            if "toolResult" in block:
                found.append(block["toolResult"]["content"][0]["text"])
    return found


def test_a_tool_without_a_transaction_commits_at_once(sdk, tool):
    get_user_model().objects.create_user("ada")
    assert sdk("s", steps=STEPS, tools=[tool]).say("add bob") == "done"

    assert results("s") == ["ada, bob"]
    assert run_in_thread(names) == "ada, bob"


def test_a_tool_sees_the_callers_uncommitted_rows_and_goes_with_them(sdk, tool):
    with transaction.atomic(), joined():
        get_user_model().objects.create_user("ada")
        assert sdk("s", steps=STEPS, tools=[tool]).say("add bob") == "done"
        assert results("s") == ["ada, bob"]
        assert names() == "ada, bob"
        transaction.set_rollback(True)

    assert names() == ""
    assert said("s") == []


def test_the_tools_of_an_async_run_join_a_thread_that_says_it_waits(sdk, tool):
    """As of an async view that the client calls in a sync test."""

    async def main() -> str:
        agent = await sdk.load("s", steps=STEPS, tools=[tool])
        return str(await agent.asay("add bob"))

    with transaction.atomic(), joined():
        get_user_model().objects.create_user("ada")
        assert async_to_sync(main)() == "done"
        assert results("s") == ["ada, bob"]
        transaction.set_rollback(True)

    assert names() == ""


def test_a_run_joins_by_itself_with_async_tools(sdk):
    with transaction.atomic():
        get_user_model().objects.create_user("ada")
        assert sdk("s", steps=STEPS, tools=[users_async]).say("add bob") == "done"
        assert results("s") == ["ada, bob"]
        transaction.set_rollback(True)

    assert names() == ""


def test_a_tool_in_a_loop_of_an_async_program(sdk, tool):
    async def main():
        agent = await sdk.load("s", steps=STEPS, tools=[tool])
        return await agent.asay("add bob")

    assert asyncio.run(main()) == "done"
    assert results("s") == ["bob"]


def test_a_tools_thread_keeps_no_connection(sdk):
    found: list[list[object]] = []

    def look() -> str:
        """Looks which connections this thread has."""
        run_orm(names)
        found.append([c.connection for c in connections.all(initialized_only=True)])
        return "looked"

    sdk("s", steps=[Call("look"), "done"], tools=[look]).say("look")

    assert [[c for c in thread if c is not None] for thread in found] == [[]]


@pytest.mark.parametrize("in_transaction", [True, False])
def test_an_agent_that_is_a_tool_of_another(sdk, in_transaction):
    def ask(text: str) -> str:
        """Asks the other agent.

        Args:
            text: What to ask.
        """
        return str(sdk("inner").say(text))

    def converse() -> None:
        agent = sdk("outer", steps=[Call("ask", {"text": "one"}), "done"], tools=[ask])
        assert agent.say("please ask") == "done"
        assert (said("outer")[0], said("outer")[-1]) == ("please ask", "done")
        assert results("outer") == ["You said: one"]
        assert said("inner") == turns("one")

    if in_transaction:
        with transaction.atomic(), joined():
            converse()
            transaction.set_rollback(True)
        assert said("outer") == said("inner") == []
    else:
        converse()


@pytest.mark.parametrize("in_transaction", [True, False])
def test_an_agent_that_is_an_async_tool_of_another(sdk, in_transaction):
    async def ask(text: str) -> str:
        """Asks the other agent.

        Args:
            text: What to ask.
        """
        return str(await (await sdk.load("inner")).asay(text))

    with transaction.atomic() if in_transaction else nullcontext():
        agent = sdk("outer", steps=[Call("ask", {"text": "one"}), "done"], tools=[ask])
        assert agent.say("please ask") == "done"
        assert said("inner") == turns("one")
        if in_transaction:
            transaction.set_rollback(True)

    assert said("inner") == ([] if in_transaction else turns("one"))


def test_run_orm_in_a_running_loop_neither_refuses_nor_deadlocks():
    async def main() -> str:
        run_orm(get_user_model().objects.create_user, "ada")
        return run_orm(names)

    assert asyncio.run(main()) == "ada"
    with transaction.atomic():
        get_user_model().objects.create_user("bob")
        assert asyncio.run(_names_in_a_loop()) == "ada, bob"


async def _names_in_a_loop() -> str:
    return run_orm(names)


def test_what_a_function_raises_comes_through():
    with pytest.raises(get_user_model().DoesNotExist):
        run_orm(get_user_model().objects.get, username="nobody")

    async def main() -> None:
        await arun_orm(get_user_model().objects.get, username="nobody")

    with pytest.raises(get_user_model().DoesNotExist):
        asyncio.run(main())
