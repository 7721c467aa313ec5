"""Emptying the database after a test that committed, in a thousandth of the time of a flush."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import connection, transaction
from django.test import TransactionTestCase

from django_agent_sessions.models import Session, SessionAgent
from django_agent_sessions.sql.triggers import permit_change

KEPT = ("django_content_type", "auth_permission")
"""What migrations wrote; a flush would have it written again."""


@contextmanager
def deleted_instead_of_flushed(kept: list[int]) -> Iterator[None]:
    """Deletes what a test committed, because a flush of every table takes longer than most tests.

    Args:
        kept: What ``count_kept`` has to find; where it does not, the database is flushed.
    """

    def delete(test_case: TransactionTestCase) -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            if connection.vendor == "postgresql":
                # Else nobody deletes what was recorded.
                cursor.execute("SET LOCAL agent_sessions.purge = 'on'")
                held = Session.objects.filter(legal_hold=True).values_list("pk", flat=True)
                permit_change("default", list(held))
                held.update(legal_hold=False)
            # In any order: foreign keys are looked at in the end.
            for table in _tables():
                if table not in KEPT:
                    cursor.execute(f"DELETE FROM {connection.ops.quote_name(table)}")
        if count_kept() != kept:
            call_command("flush", verbosity=0, interactive=False)

    def truncate(test_case: TransactionTestCase) -> None:
        tables = [connection.ops.quote_name(t) for t in _tables() if t not in KEPT]
        holds = "SELECT '{0}' FROM DUAL WHERE EXISTS (SELECT 1 FROM {0})"
        with connection.cursor() as cursor:
            cursor.execute(" UNION ALL ".join(holds.format(table) for table in tables))
            found = {table for (table,) in cursor.fetchall()}
            # Names that were rolled back are nowhere and lock their neighbours all the same.
            found |= {connection.ops.quote_name(m._meta.db_table) for m in (Session, SessionAgent)}
            cursor.execute("SET FOREIGN_KEY_CHECKS = 0")
            for table in found:
                cursor.execute(f"TRUNCATE {table}")
            cursor.execute("SET FOREIGN_KEY_CHECKS = 1")
        if count_kept() != kept:
            call_command("flush", verbosity=0, interactive=False)

    with pytest.MonkeyPatch.context() as patch:
        # On MariaDB a name that was just deleted locks its neighbours when it is inserted again,
        # so that transactions of the next test would deadlock. Few tables have rows in them.
        empty = truncate if settings.TEST_DATABASE == "mariadb" else delete
        patch.setattr(TransactionTestCase, "_fixture_teardown", empty)
        yield


def _tables() -> list[str]:
    return connection.introspection.django_table_names(only_existing=True, include_views=False)


def count_kept() -> list[int]:
    """Counts the rows that stay from test to test."""
    with connection.cursor() as cursor:
        counts = []
        for table in KEPT:
            cursor.execute(f"SELECT COUNT(*) FROM {connection.ops.quote_name(table)}")
            counts.append(cursor.fetchone()[0])
    return counts
