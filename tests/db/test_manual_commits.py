"""A database with ``"AUTOCOMMIT": False`` commits nothing: what would be lost is refused."""

from __future__ import annotations

import asyncio
import copy

import pytest
from agents.items import TResponseInputItem
from django.core.checks import Error
from django.db import connections, transaction

from django_agent_sessions import audit, leases
from django_agent_sessions.adapters.openai_agents import DjangoSession
from django_agent_sessions.checks import check_storage
from django_agent_sessions.db.bridge import arun_orm
from django_agent_sessions.exceptions import ConfigurationError
from django_agent_sessions.models import AuditEvent, Session
from django_agent_sessions.store import SessionStore

pytestmark = pytest.mark.django_db(transaction=True)

ITEM: TResponseInputItem = {"role": "user", "content": "hello"}


@pytest.fixture
def manual(settings, django_db_blocker):
    """The tests' database under a second alias, on which Django commits nothing."""
    SessionStore().open("s")
    configuration = copy.deepcopy(connections["default"].settings_dict)
    configuration["AUTOCOMMIT"] = False
    connections.settings["manual"] = configuration
    settings.AGENT_SESSIONS = {"DATABASE": "manual"}
    # None of the tests' own databases, so that no mark allows it.
    with django_db_blocker.unblock():
        yield "manual"
    connections["manual"].close()
    del connections["manual"]
    del connections.settings["manual"]


def say_in_a_loop() -> None:
    asyncio.run(DjangoSession("s").add_items([ITEM]))


def say_in_a_transaction() -> None:
    with transaction.atomic("manual"):
        say_in_a_loop()


def say_by_the_store() -> None:
    store = SessionStore()
    store.append(store.agents.open(store.get("s")), ITEM)


def say_by_the_stores_twin() -> None:
    store = SessionStore()

    async def say() -> None:
        await store.aappend(await store.agents.aopen(await store.aget("s")), ITEM)

    asyncio.run(say())


def open_a_session() -> None:
    SessionStore().open("new")


def delete_a_session() -> None:
    SessionStore().delete("s")


def run_exclusively() -> None:
    leases.acquire(SessionStore(using="default").get("s").id)


def run_a_tool() -> None:
    asyncio.run(arun_orm(lambda: Session.objects.using("manual").all().delete()))


def record_a_reading() -> None:
    audit.record(AuditEvent.Action.READ)


@pytest.mark.parametrize(
    "write",
    [
        say_in_a_loop,
        say_in_a_transaction,
        say_by_the_store,
        say_by_the_stores_twin,
        open_a_session,
        delete_a_session,
        run_exclusively,
        run_a_tool,
        record_a_reading,
    ],
)
def test_a_write_that_would_not_be_committed_is_refused(manual, write):
    with pytest.raises(ConfigurationError, match=r"'manual'.*AUTOCOMMIT.*DATABASE"):
        write()

    assert list(Session.objects.using("default").values_list("session_id", flat=True)) == ["s"]


def test_it_is_an_error_of_the_system_checks(manual):
    (problem,) = [problem for problem in check_storage(None) if isinstance(problem, Error)]

    assert problem.id == "agent_sessions.E011"
    assert "'manual'" in problem.msg
    assert problem.hint is not None
    assert "AUTOCOMMIT" in problem.hint


def test_what_the_caller_commits_by_hand_on_another_database_is_its_transaction(settings):
    """Only the setting is refused: a program may manage a transaction of its own."""
    transaction.set_autocommit(False)
    try:
        SessionStore().open("s")
        transaction.commit()
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)

    assert Session.objects.filter(session_id="s").exists()
