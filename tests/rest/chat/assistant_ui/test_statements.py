"""What storing a message costs, however long the thread is."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.rest.chat.assistant_ui.conftest import Cloud, ui
from tests.rest.chat.assistant_ui.test_messages import talk

pytestmark = pytest.mark.django_db


def sent(cloud: Cloud, thread: str, words: str, parent: str | None, **more: str) -> list[str]:
    """Return the statements of a request, without those of transactions."""
    with CaptureQueriesContext(connection) as captured:
        cloud.say(thread, ui("user", words, **more), parent)
    statements = [query["sql"] for query in captured]
    return [sql for sql in statements if "SAVEPOINT" not in sql]


@pytest.mark.parametrize("length", [1, 40])
def test_a_message_is_stored_by_six_statements(cloud, thread, length):
    last = talk(cloud, thread, length)[-1]

    # The user, the session, its lock, the parent and the message itself, the row, the counters.
    # Every append on MariaDB locks the session by a statement of its own.
    most = 7 if connection.vendor == "mysql" else 6
    assert len(sent(cloud, thread, "Lisbon", last)) <= most
    assert len(sent(cloud, thread, "Lisbon", last, id="mine")) <= most


def test_a_message_that_is_sent_again_is_found_by_five(cloud, thread):
    _, last = talk(cloud, thread, 2)
    cloud.say(thread, ui("user", "Lisbon"), last)

    # The user, the session, its lock, the message, and its content.
    again = sent(cloud, thread, "Lisbon", last)
    assert len(again) <= 5
    assert not any(sql.startswith(("INSERT", "UPDATE")) for sql in again)
