"""What happens after a connection broke while the end of a transaction was told.

MariaDB and MySQL are told by a statement of its own that the next ones are no transaction's; the
connection is really cut before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.utils import Error

from django_agent_sessions.db.bridge import run_orm

from .cutting import cut_the_wire, user

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("reconnected")]


@contextmanager
def end_of_transaction_lost() -> Iterator[None]:
    """Cuts the connection after the first commit, before the transaction's end is told."""
    mine: Any = connection
    tell = mine._set_autocommit

    def cut_and_tell(autocommit: bool) -> None:
        if autocommit:
            mine._set_autocommit = tell
            cut_the_wire()
        tell(autocommit)

    mine._set_autocommit = cut_and_tell
    try:
        yield
    finally:
        mine._set_autocommit = tell


WAYS = {
    "by the store": lambda store, agent: store.append(agent, user("after")),
    "in a transaction": lambda store, agent: store.append_many(
        agent, [user(str(number)) for number in range(450)]
    ),
    "by the bridge": lambda store, agent: run_orm(store.append, agent, user("after")),
    "reading": lambda store, agent: store.payloads(agent),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_transaction_whose_end_was_lost_ends_with_its_error(store, agent, way):
    # Only MariaDB and MySQL are told of it, and raise.
    told = pytest.raises(Error) if connection.vendor == "mysql" else nullcontext()

    with told, end_of_transaction_lost(), transaction.atomic():
        store.append(agent, user("before"))
    WAYS[way](store, agent)
    WAYS[way](store, agent)

    assert store.payloads(agent)[0] == user("before")
    assert connection.get_autocommit()


@pytest.mark.parametrize("closed", [False, True])
def test_a_block_that_could_not_be_entered_is_not_stayed_in(store, agent, closed):
    with suppress(Error), end_of_transaction_lost(), transaction.atomic():
        store.append(agent, user("before"))
    with suppress(Error), transaction.atomic():
        store.append(agent, user("in the caller's own block"))
    if closed:
        connection.close()

    store.append(agent, user("after"))

    assert store.payloads(agent)[-1] == user("after")
    assert connection.get_autocommit()


@pytest.mark.skipif(
    connection.vendor == "sqlite", reason="Python's SQLite commits with each savepoint there"
)
def test_what_a_caller_began_without_a_block_is_still_joined_after_an_error(store, agent):
    transaction.set_autocommit(False)
    try:
        with suppress(Error), connection.cursor() as cursor:
            cursor.execute("SELECT nothing FROM nowhere")
        transaction.rollback()
        store.append(agent, user("taken back"))
        transaction.rollback()
    finally:
        transaction.set_autocommit(True)

    assert store.payloads(agent) == []
