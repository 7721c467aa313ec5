"""Event loops of other kinds, and what happens where it cannot be proved that a thread waits."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import uvloop
from asgiref.sync import async_to_sync
from django.contrib.auth import get_user_model
from django.db import connection, connections, transaction

from django_agent_sessions.db.bridge import arun_orm, joined, run_orm
from django_agent_sessions.exceptions import ConfigurationError
from django_agent_sessions.models import Session

from .chats import SDK, Call, Step, said, turns
from .test_tools import names, users
from .test_views import uvicorn_server

pytestmark = pytest.mark.django_db(transaction=True)


STEPS: list[Step] = [Call("users", {"new": "bob"}), "done"]


@pytest.fixture(params=["asyncio", "uvloop"], autouse=True)
def loops(request) -> Iterator[str]:
    """Every new loop of the process is of this kind, as by uvicorn before 0.36."""
    with warnings.catch_warnings():
        # Python 3.14 deprecates policies, which projects set all the same.
        warnings.simplefilter("ignore", DeprecationWarning)
        before = asyncio.get_event_loop_policy()
        if request.param == "uvloop":
            asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
        yield request.param
        asyncio.set_event_loop_policy(before)


def by_itself(sdk: SDK) -> str:
    return sdk("s", steps=STEPS, tools=[users]).say("add bob")


def by_asyncio_run(sdk: SDK) -> str:
    return asyncio.run(_say(sdk))


def by_async_to_sync(sdk: SDK) -> str:
    return str(async_to_sync(_say)(sdk))


async def _say(sdk: SDK) -> str:
    agent = await sdk.load("s", steps=STEPS, tools=[users])
    return await agent.asay("add bob")


@pytest.mark.parametrize("call", [by_itself, by_asyncio_run, by_async_to_sync])
def test_sync_tools_join_where_it_is_declared_and_otherwise_write_nothing(sdk, call):
    with transaction.atomic():
        get_user_model().objects.create_user("ada")
        assert call(sdk) == "done"
        assert names() == "ada"
        transaction.set_rollback(True)
    with transaction.atomic(), joined():
        get_user_model().objects.create_user("ada")
        assert call(sdk) == "done"
        assert names() == "ada, bob"
        transaction.set_rollback(True)

    assert names() == ""
    assert said("s") == []


@pytest.mark.urls("tests.contexts.views")
def test_a_tool_in_a_servers_own_loop_joins_only_where_it_is_declared(sdk, monkeypatch):
    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", True)
    with uvicorn_server() as get:
        assert get(f"bridging-tool/{sdk.name}/s/bob") == (200, "done")
        assert (names(), said("s")[0], said("s")[-1]) == ("", "bob", "done")
        assert get(f"bridging-tool/{sdk.name}/t/eve?joined=1&fail=1") == (404, "")
        assert (names(), said("t")) == ("", [])
        assert get(f"bridging-tool/{sdk.name}/t/ada?joined=1") == (200, "done")
        assert (names(), said("t")[0], said("t")[-1]) == ("ada", "ada", "done")


@pytest.mark.urls("tests.contexts.views")
def test_of_a_view_that_fails_under_uvicorn_nothing_is_left(sdk, monkeypatch):
    """Neither what the agent said nor what its tool wrote, proved or not."""
    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", True)
    with uvicorn_server() as get:
        answers = [get(f"tool/{sdk.name}/s-{n}/user-{n}?fail=1") for n in range(5)]
        assert answers == [(404, "")] * 5
        assert (names(), Session.objects.count()) == ("", 0)


@pytest.mark.parametrize("sdk", ["openai"], indirect=True)
def test_a_tool_for_which_no_thread_provably_waits_writes_nothing_and_names_joined(sdk):
    """``Runner.run_sync`` does not wait for its loop's threads."""
    errors: list[Exception] = []

    def add(new: str) -> str:
        try:
            run_orm(get_user_model().objects.create_user, new)
        except ConfigurationError as error:
            errors.append(error)
            raise
        return "added"

    agent = sdk("s", steps=[Call("add", {"new": "bob"}), "done"], tools=[add])
    with transaction.atomic():
        assert agent.say("add bob") == "done"
        assert names() == ""
    assert names() == ""
    assert "joined()" in str(errors[0])

    # Without a transaction there is nothing to leave.
    assert sdk("t", steps=[Call("add", {"new": "ada"}), "done"], tools=[add]).say("x") == "done"
    with transaction.atomic(), joined():
        assert sdk("u", steps=[Call("add", {"new": "eve"}), "done"], tools=[add]).say("x") == "done"
        transaction.set_rollback(True)
    assert names() == "ada"


@pytest.mark.parametrize("sdk", ["openai"], indirect=True)
def test_a_thread_of_a_run_that_outlives_the_transaction_commits_by_itself(sdk):
    contexts: list[contextvars.Context] = []

    def look() -> str:
        contexts.append(contextvars.copy_context())
        return "looked"

    with transaction.atomic():
        sdk("s", steps=[Call("look"), "done"], tools=[look]).say("look")
        with pytest.raises(ConfigurationError, match=r"joined\(\)"):
            in_a_thread_of(contexts[0], _create)
    with transaction.atomic():
        # Another transaction of the same thread is none of its business.
        get_user_model().objects.count()
        if connection.vendor != "sqlite":
            in_a_thread_of(contexts[0], _create)
        transaction.set_rollback(True)
    if connection.vendor == "sqlite":
        in_a_thread_of(contexts[0], _create)

    assert Session.objects.filter(session_id="kept").exists()


def _create() -> None:
    run_orm(Session.objects.create, session_id="kept")


def in_a_thread_of(context: contextvars.Context, function: Callable[[], None]) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(context.run, function).result(30)


def test_async_code_of_another_loop_that_cannot_be_proved_to_be_waited_for_raises():
    async def inner() -> None:
        await arun_orm(Session.objects.create, session_id="lost")

    async def outer() -> None:
        await arun_orm(Session.objects.count)
        errors: list[BaseException] = []

        def run() -> None:
            try:
                asyncio.run(inner())
            except ConfigurationError as error:
                errors.append(error)

        thread = threading.Thread(target=contextvars.copy_context().run, args=(run,))
        thread.start()
        thread.join(30)
        assert "joined()" in str(errors[0])

    with transaction.atomic():
        asyncio.run(outer())

    assert not Session.objects.exists()


def test_conversations_in_threads_of_their_own_keep_what_was_acknowledged(sdk, loops):
    """Nothing of it belongs to a transaction that another thread has open meanwhile."""
    if connection.vendor == "sqlite":
        return
    with transaction.atomic():
        Session.objects.create(session_id="open")
        with ThreadPoolExecutor(2) as pool:
            kept = list(pool.map(lambda n: sdk(f"s-{n}").say("one"), range(4)))
        transaction.set_rollback(True)

    assert kept == ["You said: one"] * 4
    assert [said(f"s-{n}") for n in range(4)] == [turns("one")] * 4
