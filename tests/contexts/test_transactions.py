"""Inside ``transaction.atomic()``: the caller's transaction takes the conversation along."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from contextlib import suppress

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth import get_user_model
from django.db import connection, transaction

from django_agent_sessions.models import Session

from .chats import said, turns
from .conftest import run_in_thread

pytestmark = pytest.mark.django_db(transaction=True)


def say(sdk, text):
    return sdk("s").say(text)


def say_in_async_to_sync(sdk, text):
    async def main():
        return await (await sdk.load("s")).asay(text)

    return async_to_sync(main)()


def say_in_a_loop_of_this_thread(sdk, text):
    async def main():
        return await (await sdk.load("s")).asay(text)

    return asyncio.run(main())


def build_in_a_loop_of_this_thread(sdk, text):
    """No loading ahead: what an SDK does synchronously in the loop works too."""

    async def main():
        return await sdk("s").asay(text)

    return asyncio.run(main())


ROADS = [
    say,
    say_in_async_to_sync,
    say_in_a_loop_of_this_thread,
    build_in_a_loop_of_this_thread,
]


@pytest.fixture(params=ROADS, ids=lambda road: road.__name__)
def road(request):
    return request.param


def test_without_a_transaction_a_conversation_is_there_for_everybody_at_once(sdk, road):
    assert road(sdk, "one") == "You said: one"
    assert run_in_thread(lambda: said("s")) == turns("one")
    assert road(sdk, "two") == "You said: two"
    assert said("s") == turns("one", "two")


def test_a_rollback_leaves_nothing(sdk, road):
    with suppress(LookupError), transaction.atomic():
        road(sdk, "one")
        road(sdk, "two")
        assert said("s") == turns("one", "two")
        raise LookupError

    assert not Session.objects.exists()


def test_a_commit_keeps_everything_and_nobody_sees_it_before(sdk, road):
    with transaction.atomic():
        get_user_model().objects.create_user("ada")
        road(sdk, "one")
        assert run_in_thread(lambda: said("s")) == []
        road(sdk, "two")

    assert run_in_thread(lambda: said("s")) == turns("one", "two")
    assert get_user_model().objects.count() == 1


def test_a_savepoint_takes_only_its_own_turns_back(sdk, road):
    with transaction.atomic():
        road(sdk, "one")
        with suppress(LookupError), transaction.atomic():
            road(sdk, "undone")
            raise LookupError
        road(sdk, "two")

    assert said("s") == turns("one", "two")


def test_one_agent_goes_in_and_out_of_transactions(sdk):
    """A rollback takes its rows, not its memory."""
    agent = sdk("s")
    agent.say("one")
    with transaction.atomic():
        agent.say("two")
    agent.say("three")

    assert said("s") == turns("one", "two", "three")


def test_without_autocommit_too(sdk):
    transaction.set_autocommit(False)
    try:
        sdk("s").say("one")
        assert run_in_thread(lambda: said("s")) == []
        transaction.rollback()
        assert said("s") == []
        sdk("s").say("two")
        transaction.commit()
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)

    assert run_in_thread(lambda: said("s")) == turns("two")


def test_an_agent_built_in_one_thread_joins_the_transaction_of_the_thread_that_calls_it(sdk):
    agent = run_in_thread(lambda: sdk("s"))
    built = Session.objects.count()

    with suppress(LookupError), transaction.atomic():
        agent.say("one")
        assert said("s") == turns("one")
        raise LookupError

    assert said("s") == []
    assert Session.objects.count() == built


def test_a_context_copied_into_another_thread_carries_no_transaction(sdk):
    """What was acknowledged there does not vanish with somebody else's rollback."""
    answers: list[str] = []

    def background() -> None:
        answers.append(run_in_thread(lambda: sdk("s").say("kept")))

    with suppress(LookupError), transaction.atomic():
        Session.objects.count()
        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(background,))
        thread.start()
        # On SQLite the transaction holds the lock of all writers: there it waits, and goes on
        # when this is rolled back.
        thread.join(20 if connection.vendor != "sqlite" else 0.3)
        if connection.vendor != "sqlite":
            assert answers == ["You said: kept"]
        raise LookupError
    thread.join(30)

    assert answers == ["You said: kept"]
    assert said("s") == turns("kept")


def test_a_task_of_a_loop_that_outlives_the_transaction_does_not_belong_to_it(sdk):
    """One loop for the whole process, in a thread of its own, as Jupyter and others have."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def main():
        return await (await sdk.load("s")).asay("kept")

    try:
        with transaction.atomic():
            transaction.set_rollback(True)
            future = asyncio.run_coroutine_threadsafe(main(), loop)
            if connection.vendor != "sqlite":
                assert future.result(20) == "You said: kept"
        assert future.result(30) == "You said: kept"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()

    assert said("s") == turns("kept")
