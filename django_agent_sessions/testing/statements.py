"""The contract for the number of statements, because round trips decide how fast a call is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from .base import Contract, D, numbered_texts

_TRANSACTION = ("SAVEPOINT", "RELEASE", "BEGIN")
_LOCKS = ("LIMIT 1 FOR UPDATE", "FOR NO KEY UPDATE")


def statements(use: Callable[[], Any]) -> list[str]:
    """Return the verbs of the statements of a call, without those that only a transaction needs.

    The call runs inside a transaction of this thread, and so on its connection. Left out are
    savepoints, and the lock that a server takes first on the session's row.
    """
    with transaction.atomic(), CaptureQueriesContext(connection) as captured:
        use()
    told = [query["sql"] for query in captured.captured_queries]
    verbs = [sql.split(None, 1)[0].upper() for sql in told if not sql.endswith(_LOCKS)]
    return [verb for verb in verbs if verb not in _TRANSACTION]


class StatementContract(Contract[D]):
    """An append takes as many statements in a long conversation as in a short one.

    Its drivers use one object per session.
    """

    append_statements = 1 if connection.vendor == "postgresql" else 2
    """The maximum of an append by an object that has appended before."""

    open_statements = 3
    """The maximum of the first read of a session by a new object."""

    @pytest.mark.django_db(transaction=True)
    @pytest.mark.parametrize("length", [2, 100])
    def test_an_append_takes_the_same_few_statements_at_any_length(self, length: int) -> None:
        driver = self.driver()
        texts = numbered_texts("text", length)
        driver.append("counted", [driver.payload(text) for text in texts])

        payload = driver.payload("one more")
        found = statements(lambda: driver.append("counted", [payload]))

        assert 0 < len(found) <= self.append_statements, found

    @pytest.mark.django_db(transaction=True)
    @pytest.mark.parametrize("length", [2, 100])
    def test_a_conversation_is_restored_by_a_few_reads_at_any_length(self, length: int) -> None:
        writer = self.driver()
        writer.append("counted", [writer.payload(text) for text in numbered_texts("t", length)])

        reader = self.driver()
        found = statements(lambda: reader.read("counted"))

        assert set(found) == {"SELECT"}
        assert len(found) <= self.open_statements, found
