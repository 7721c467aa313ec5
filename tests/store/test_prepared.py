"""On PostgreSQL, psycopg prepares the statements of the store if a project's OPTIONS ask for it."""

from __future__ import annotations

import os
from typing import Any

import pytest
from django.db import connection, connections, transaction

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(connection.vendor != "postgresql", reason="psycopg is PostgreSQL's driver"),
    pytest.mark.skipif("PGDIRECTPORT" in os.environ, reason="a pooler prepares nothing"),
]

OPTIONS = {"server_side_binding": True, "prepare_threshold": 2}


@pytest.fixture
def preparing(db, monkeypatch):
    """Connect with the documented OPTIONS, with a threshold that a short test reaches."""
    connections.close_all()
    options = {**connection.settings_dict["OPTIONS"], **OPTIONS}
    monkeypatch.setitem(connection.settings_dict, "OPTIONS", options)
    yield
    connections.close_all()


def messages(count: int) -> list[dict[str, Any]]:
    spoken = {"role": "user", "content": "Hello\x00 “\ud800”", "metadata": {"n": None}}
    answers = [{"role": "assistant", "content": f"{n}"} for n in range(1, count)]
    return [spoken, *answers]


def prepared() -> list[str]:
    """The first words of what is prepared on this connection's server process."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement FROM pg_prepared_statements")
        return [statement.split("(")[0].strip() for (statement,) in cursor.fetchall()]


def test_appends_and_restores_are_prepared_and_as_ever(preparing, store, agent):
    said = messages(12)
    for message in said[:8]:
        store.append(agent, message)
        assert store.messages.latest(agent, 1)[0].message == message
    for _ in range(4):
        store.append_many(agent, said[8:])

    assert store.payloads(agent) == said[:8] + said[8:] * 4
    assert {statement.split()[0] for statement in prepared()} >= {"WITH", "SELECT"}


def test_statements_of_a_transaction_are_prepared_too(preparing, store, agent):
    with transaction.atomic():
        for message in messages(6):
            store.append(agent, message)

    assert any(statement.startswith("WITH written") for statement in prepared())
    assert store.payloads(agent) == messages(6)


def test_nothing_is_prepared_unless_a_project_asks_for_it(store, agent):
    for message in messages(8):
        store.append(agent, message)

    assert prepared() == []
