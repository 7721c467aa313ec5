"""A database without our current tables is named with the command that creates them."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager

import pytest
from django.db import connection
from strands import Agent
from strands.types.exceptions import StorageError

from django_agent_sessions.adapters.openai_agents import AdvancedDjangoSession, DjangoSession
from django_agent_sessions.adapters.strands import (
    DjangoSessionManager,
    DjangoSessionRepository,
    DjangoStorage,
)
from django_agent_sessions.exceptions import ConfigurationError
from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.store import SessionStore

pytestmark = pytest.mark.django_db(transaction=True)

SAYS = "database 'default' does not have the current tables .*: run manage.py migrate"
LATEST = "session/s/scopes/agent/a/snapshots/snapshot_latest.json"
ITEM = {"role": "user", "content": "Hello"}


@contextmanager
def renamed(table: str, column: str | None = None):
    """Takes away a table or one of its columns, as in a database that was not migrated."""
    for old, new in ((column or table, "away"), ("away", column or table)):
        if column:
            statement = f"ALTER TABLE {table} RENAME COLUMN {old} TO {new}"
        else:
            statement = f"ALTER TABLE {old} RENAME TO {new}"
        with connection.cursor() as cursor:
            cursor.execute(statement)
        if new == "away":
            yield


@pytest.fixture(params=["table", "column"])
def not_migrated(request):
    with renamed(Session._meta.db_table, "title" if request.param == "column" else None):
        yield


@pytest.mark.parametrize(
    "use",
    [
        lambda: SessionStore().open("s"),
        lambda: SessionStore().get("s"),
        lambda: SessionStore().sessions.list(),
        lambda: SessionStore().create("s"),
        lambda: Agent(session_manager=DjangoSessionManager("s"), callback_handler=None),
        lambda: DjangoSessionRepository().read_session("s"),
        lambda: asyncio.run(DjangoStorage().write(LATEST, b"{}")),
        lambda: asyncio.run(DjangoSession("s").get_items()),
        lambda: asyncio.run(DjangoSession("s").add_items([{"role": "user", "content": "Hello"}])),
        lambda: asyncio.run(AdvancedDjangoSession(session_id="s").list_branches()),
    ],
)
def test_each_way_to_open_a_session_says_to_migrate(not_migrated, use):
    with pytest.raises((ConfigurationError, StorageError), match=SAYS):
        use()


def test_an_append_says_to_migrate_without_its_content(store, agent):
    with (
        renamed(SessionMessage._meta.db_table, "role"),
        pytest.raises(ConfigurationError, match=SAYS) as refusal,
    ):
        store.append(agent, {"role": "user", "content": "plantedsecret"})
    assert "plantedsecret" not in str(refusal.value)
    assert refusal.value.__cause__ is None
    store.append(agent, ITEM)
    assert store.payloads(agent) == [ITEM]
