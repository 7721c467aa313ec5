"""``joined()``: saying that one waits, where it cannot be proved."""

from __future__ import annotations

import asyncio
import contextvars
import threading

import pytest
from django.db import connection, transaction

from django_agent_sessions.db.bridge import joined, run_orm
from django_agent_sessions.exceptions import ConfigurationError
from django_agent_sessions.models import Session

from .chats import said, turns
from .conftest import run_in_thread

pytestmark = pytest.mark.django_db(transaction=True)


def test_it_needs_a_transaction():
    with pytest.raises(
        ConfigurationError, match=r"requires an open transaction on 'default'.*atomic"
    ):
        joined().__enter__()


async def test_it_is_not_for_a_thread_that_runs_a_loop():
    with pytest.raises(ConfigurationError, match="running event loop"):
        joined().__enter__()


@pytest.mark.parametrize("rolled_back", [True, False])
def test_an_agent_in_a_thread_that_is_waited_for_joins(sdk, rolled_back):
    """Threads of one's own, such as those of a library, cannot be seen to be waited for."""
    answers: list[str] = []
    with transaction.atomic(), joined():
        context = contextvars.copy_context()
        thread = threading.Thread(
            target=context.run, args=(lambda: answers.append(sdk("s").say("one")),)
        )
        thread.start()
        thread.join(30)
        assert said("s") == turns("one")
        transaction.set_rollback(rolled_back)

    assert answers == ["You said: one"]
    assert said("s") == ([] if rolled_back else turns("one"))


def test_it_can_be_nested(sdk):
    with transaction.atomic(), joined():
        sdk("s").say("one")
        with transaction.atomic(), joined():
            asyncio.run(sdk("s").asay("undone"))
            transaction.set_rollback(True)
        sdk("s").say("two")

    assert said("s") == turns("one", "two")


def test_after_its_end_a_context_that_remembers_it_goes_its_own_way(sdk):
    contexts: list[contextvars.Context] = []
    with transaction.atomic():
        with joined():
            contexts.append(contextvars.copy_context())
        # On SQLite the transaction that is open holds the lock of all writers.
        late = threading.Thread(
            target=contexts[0].run, args=(lambda: run_in_thread(lambda: sdk("s").say("kept")),)
        )
        late.start()
        late.join(20 if connection.vendor != "sqlite" else 0.3)
        transaction.set_rollback(True)
    late.join(30)

    assert said("s") == turns("kept")


def test_work_under_way_is_waited_for_at_its_end():
    began, go_on = threading.Event(), threading.Event()
    order: list[str] = []

    def slow() -> None:
        Session.objects.create(session_id="slow")
        began.set()
        assert go_on.wait(10)
        order.append("work")

    with transaction.atomic():
        with joined():
            context = contextvars.copy_context()
            thread = threading.Thread(target=context.run, args=(run_orm, slow))
            thread.start()
            assert began.wait(10)
            threading.Timer(0.2, go_on.set).start()
        order.append("end")
        transaction.set_rollback(True)
    thread.join(10)

    assert order == ["work", "end"]
    assert not Session.objects.exists()


def test_threads_that_join_one_transaction_take_turns():
    """A connection serves one statement at a time; several threads may share it all the same."""
    with transaction.atomic(), joined():
        threads = []
        for number in range(4):
            context = contextvars.copy_context()

            def work(number: int = number) -> None:
                for index in range(10):
                    run_orm(Session.objects.create, session_id=f"{number}-{index}")

            threads.append(threading.Thread(target=context.run, args=(work,)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert Session.objects.count() == 40
        transaction.set_rollback(True)

    assert not Session.objects.exists()
