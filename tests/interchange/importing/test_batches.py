"""A batch takes two statements, is as large as a server takes, and goes with its transaction."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_agent_sessions.interchange import import_sessions
from django_agent_sessions.interchange.sources import SourceMessage
from django_agent_sessions.models import Session
from tests.interchange.sources import Made, said, talk, user

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_batch_takes_three_statements_and_a_session_a_fixed_number():
    def count(length: int) -> int:
        name = f"s-{length}"
        with CaptureQueriesContext(connection) as captured:
            import_sessions(Made([talk(said(length), name)]))
        return sum(not q["sql"].startswith(("BEGIN", "COMMIT")) for q in captured)

    empty = count(0)

    # Which messages were redacted before, the progress, and the messages.
    assert count(1) == count(200) == empty + 3
    assert count(1000) == empty + 15


def test_a_batch_of_large_messages_is_smaller():
    large = [SourceMessage(user("x" * 900_000)) for _ in range(4)]
    reached = []

    import_sessions(Made([talk(large)]), progress=lambda report: reached.append(report.messages))

    assert reached == [2, 4, 4]


def test_a_message_that_a_server_takes_just_so_is_written_alone():
    """MariaDB's packets have 16 MB."""
    sizes = [1_900_000, 15_800_000, 10]

    report = import_sessions(Made([talk([SourceMessage(user("x" * size)) for size in sizes])]))

    assert (report.messages, report.skips) == (3, 0)


def test_an_import_in_a_transaction_goes_with_it():
    from django.db import transaction

    with transaction.atomic():
        assert import_sessions(Made([talk(said(250))])).messages == 250
        transaction.set_rollback(True)

    assert not Session.objects.exists()
