"""The messages in hash partitions by session, and back: nothing that is stored or asked differs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.writer import OperationWriter

from django_agent_sessions.models import SessionMessage
from django_agent_sessions.sql.partitioning import PartitionMessages
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.ids import new_id
from tests.testing import test_contract_store

ON_POSTGRESQL = settings.TEST_DATABASE == "postgresql"
pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(not ON_POSTGRESQL, reason="only PostgreSQL has partitions here"),
]

TABLE = SessionMessage._meta.db_table
PARTITIONS = 4
_OPERATION = PartitionMessages(partitions=PARTITIONS)


def _do(work: Any) -> None:
    state = MigrationLoader(connection).project_state()
    with connection.schema_editor(atomic=True) as editor:
        work("agent_sessions", editor, state, state)


def _definitions() -> list[tuple[str, str]]:
    """Names and definitions of the table's constraints, indexes and triggers."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint "
            "WHERE conrelid = %s::regclass UNION ALL SELECT indexname, indexdef FROM pg_indexes "
            "WHERE tablename = %s UNION ALL SELECT tgname, pg_get_triggerdef(oid) FROM pg_trigger "
            "WHERE tgrelid = %s::regclass AND NOT tgisinternal ORDER BY 1, 2",
            [TABLE, TABLE, TABLE],
        )
        return list(cursor.fetchall())


def _fill(names: range) -> None:
    store = SessionStore()
    for number in names:
        agent = store.agents.open(store.open(f"s{number}"))
        store.append_many(agent, [{"role": "user", "content": f"{number} {n}"} for n in range(9)])


def _rows() -> list[Any]:
    return list(SessionMessage.objects.order_by("pk").values())


@pytest.fixture(scope="module", autouse=True)
def partitioned(django_db_setup, django_db_blocker) -> Iterator[list[tuple[str, str]]]:
    """Partitions the tables of this module's tests; gives what they were like before."""
    with django_db_blocker.unblock():
        if not ON_POSTGRESQL:
            yield []
            return
        before = _definitions()
        _do(_OPERATION.database_forwards)
    yield before
    with django_db_blocker.unblock():
        _do(_OPERATION.database_backwards)
        connection.close()


class TestStoreOnPartitions(test_contract_store.TestStore):
    """The contract of the store."""


def test_what_was_said_goes_into_partitions_and_back_again(partitioned):
    _do(_OPERATION.database_backwards)
    assert _definitions() == partitioned
    _fill(range(20))
    said = _rows()

    _do(_OPERATION.database_forwards)

    with connection.cursor() as cursor:
        cursor.execute(f"SELECT tableoid::regclass::text, count(*) FROM {TABLE} GROUP BY 1")
        parts = dict(cursor.fetchall())
    assert len(parts) == PARTITIONS
    assert sum(parts.values()) == len(said) == 180
    assert _rows() == said
    _fill(range(10, 30))
    assert SessionMessage.objects.count() == 360
    said = _rows()

    _do(_OPERATION.database_backwards)

    assert _rows() == said
    assert _definitions() == partitioned
    _do(_OPERATION.database_forwards)


def test_the_models_have_no_migration_more():
    call_command("makemigrations", "agent_sessions", check=True, dry_run=True, verbosity=0)


def test_it_can_be_written_into_a_migration():
    text, imports = OperationWriter(_OPERATION, indentation=0).serialize()

    assert text.replace("\n", "").replace(" ", "") == (
        "django_agent_sessions.sql.partitioning.PartitionMessages(partitions=4,),"
    )
    assert imports == {"import django_agent_sessions.sql.partitioning"}


def test_a_conversation_has_each_position_once(store, agent):
    store.append(agent, {"role": "user", "content": "a"})
    row = SessionMessage.objects.get()
    row.pk, row._state.adding = new_id(), True

    with pytest.raises(IntegrityError, match="unique"), transaction.atomic():
        row.save(force_insert=True)


def test_a_session_goes_with_what_it_has_in_its_partition(store):
    _fill(range(5))

    assert store.delete("s3") is True

    assert SessionMessage.objects.count() == 36


def test_a_number_of_partitions_below_one_is_refused():
    with pytest.raises(ValueError, match="1 or more"):
        PartitionMessages(partitions=0)
