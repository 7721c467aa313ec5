"""The list of sessions with errors is read in its order from an index, on every database."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.urls import reverse

from django_agent_sessions.models import Session
from tests.admin.people import staff

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
INDEX = "agent_sessions_session_errors"
SORTS = ("Sort", "TEMP B-TREE", "filesort")


@pytest.fixture
def sessions():
    """Sessions of which a few have errors, neither the first nor the last ones."""
    chosen = set(random.Random(7).sample(range(3_000), 600))
    Session.objects.bulk_create(
        Session(
            session_id=str(number),
            last_activity_at=NOON - timedelta(minutes=number),
            error_count=number in chosen,
            has_errors=number in chosen,
        )
        for number in range(3_000)
    )
    # MariaDB would end the test's transaction.
    if connection.vendor != "mysql":
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE agent_sessions_session")


def plan_of(sql: str) -> str:
    explain = "EXPLAIN QUERY PLAN" if connection.vendor == "sqlite" else "EXPLAIN"
    with connection.cursor() as cursor:
        cursor.execute(f"{explain} {sql.replace('%', '%%')}")
        return "\n".join(str(row) for row in cursor.fetchall())


def test_a_page_is_read_from_the_index(sessions, django_assert_num_queries):
    with django_assert_num_queries(2) as queries:
        first = list(Session.objects.with_errors().recent_first()[:10])
        after = first[-1]
        later = Session.objects.with_errors().recent_first()
        assert len(later.less_recent_than(after.last_activity_at, after.pk)[:10]) == 10
    for query in queries:
        plan = plan_of(query["sql"])
        assert INDEX in plan
        assert not any(sort in plan for sort in SORTS)


def test_the_list_of_the_admin_is_read_from_the_index(
    sessions, client, django_assert_max_num_queries
):
    client.force_login(staff("reader", "view_session"))
    with django_assert_max_num_queries(20) as queries:
        client.get(reverse("admin:agent_sessions_session_changelist"), {"errors": "yes"})
    [page] = [sql for query in queries if "has_errors" in (sql := query["sql"]) and "LIMIT" in sql]
    # Its subqueries may sort the few rows of a session.
    assert INDEX in plan_of(page)
