"""How many statements and requests it takes to write and read messages with large binaries."""

from __future__ import annotations

from collections import Counter

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_agent_sessions.governance.redaction import WholeMessage, redact
from django_agent_sessions.values.records import NewMessage
from tests.s3 import bucket_fixture  # noqa: F401 - a fixture

from .deeds import message, picture

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def taken(bucket, settings):
    """Counts what a function takes: statements, and requests by their method."""
    backend = "storages.backends.s3.S3Storage"
    settings.STORAGES = {
        **settings.STORAGES,
        "blobs": {"BACKEND": backend, "OPTIONS": bucket.options},
    }
    settings.AGENT_SESSIONS = {**getattr(settings, "AGENT_SESSIONS", {}), "BLOB_STORAGE": "blobs"}

    def count(function):
        with bucket.requests() as sent, CaptureQueriesContext(connection) as ran:
            function()
        kept = [q["sql"] for q in ran if not _is_around(q["sql"])]
        return len(kept), Counter(line.partition(" ")[0] for line in sent)

    return count


def _is_around(sql: str) -> bool:
    """Whether it only begins or ends a transaction, or locks a row, as not every database does."""
    return sql.startswith(("BEGIN", "COMMIT", "SAVEPOINT", "RELEASE", "START", "PRAGMA")) or (
        sql.startswith("SELECT") and ("FOR UPDATE" in sql or "FOR NO KEY UPDATE" in sql)
    )


@pytest.fixture
def strands(session, store):
    return store.agents.open(session, "main", dialect="strands")


PICTURES = [picture(str(number)) for number in range(30)]
FIRST = message("first", *PICTURES[:10])


def test_an_append_uploads_each_binary_once_whatever_their_number(taken, store, strands):
    def append(*pictures: bytes) -> tuple[int, Counter[str]]:
        found: tuple[int, Counter[str]] = taken(
            lambda: store.append(strands, message("look", *pictures), count=False)
        )
        return found

    statements, sent = append(*PICTURES[:10])
    # What is there, what is there now, the row of each binary, the message, its uses' binaries,
    # its uses.
    assert statements == 6
    # The size of each file is asked for: the storage may have stored a part of it.
    assert sent == {"PUT": 10, "HEAD": 10}
    # Also the size of what is there: its file may be lost.
    assert append(*PICTURES[:20]) == (6, {"PUT": 10, "HEAD": 20})
    assert append(*PICTURES[:20]) == (5, {"HEAD": 20})
    assert taken(lambda: store.append(strands, message("text"), count=False)) == (1, {})


def test_a_batch_takes_as_many_statements_as_a_message(taken, store, strands):
    batch = [message(str(number), one) for number, one in enumerate(PICTURES)]
    # SQLite, which takes no round trip, writes the first message by a statement of its own.
    expected = 7 if connection.vendor == "sqlite" else 6
    assert taken(lambda: store.append_many(strands, batch, count=False)) == (
        expected,
        {"PUT": 30, "HEAD": 30},
    )


def test_a_restore_is_one_more_statement_and_a_request_for_each_binary(taken, store, strands):
    for number in range(5):
        store.append(strands, message(str(number), *PICTURES[:10]))
    assert taken(lambda: store.messages.restore(strands)) == (2, {"GET": 10})
    assert taken(lambda: store.payloads(strands)) == (2, {"GET": 10})
    assert taken(lambda: store.messages.list(strands)) == (2, {"GET": 10})


def test_what_changes_a_message_takes_as_much_for_few_binaries_as_for_many(
    taken, store, strands, session
):
    def all_of_them(count: int) -> list[int]:
        found = []
        last = NewMessage(message("last", *PICTURES[:count]))
        store.append_many(strands, [message("first", *PICTURES[:count]), last])
        again = NewMessage(message("again", *PICTURES[count : 2 * count]), id=last.id)
        found.append(taken(lambda: store.append(strands, again, again=True, count=False))[0])
        new = message("new", *PICTURES[:count])
        found.append(taken(lambda: store.messages.update(strands, 0, new))[0])
        record = store.messages.list(strands)[0]
        found.append(taken(lambda: redact(session.id, WholeMessage(record.id), reason="x"))[0])
        found.append(taken(lambda: store.pop(strands))[0])
        found.append(taken(lambda: store.clear(strands))[0])
        return found

    few = all_of_them(1)
    assert few == all_of_them(10)
    # Among them the rows of the files to delete, which are written and deleted in one statement
    # each.
    assert max(few) < 31
