"""What a reader gets while somebody takes a binary away, and writes it again."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from django_agent_sessions.exceptions import BlobNotFoundError
from django_agent_sessions.store import SessionStore

from .deeds import A, message

pytestmark = pytest.mark.django_db(transaction=True)

STATEMENTS = 8
"""More than a reader asks before it reads anew."""


@pytest.mark.parametrize(
    ("away", "again"), list(itertools.combinations_with_replacement(range(STATEMENTS), 2))
)
def test_a_reader_gets_what_is_there_at_some_moment(blob_folder, away, again):
    store = SessionStore()
    agent = store.agents.open(store.open("shared"), dialect="strands")
    store.append(agent, message("first", A))
    count = itertools.count()
    busy = False

    def meanwhile(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        nonlocal busy
        if not busy and sql.startswith("SELECT"):
            busy, number = True, next(count)
            if number == away:
                store.pop(agent)
            if number == again:
                store.append(agent, message("second", A))
            busy = False
        return execute(sql, *rest)

    with connection.execute_wrapper(meanwhile):
        found = store.payloads(agent)

    assert found in ([message("first", A)], [], [message("second", A)])


def test_what_is_lost_for_good_is_told_as_that(blob_folder, stored):
    store = SessionStore()
    agent = store.agents.open(store.open("shared"), dialect="strands")
    store.append(agent, message("first", A))
    [file] = stored()
    file.unlink()

    with pytest.raises(BlobNotFoundError, match="missing from storage"):
        store.payloads(agent)
