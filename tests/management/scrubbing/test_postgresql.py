"""After a scrub a secret is in no byte of PostgreSQL's data directory, pg_wal included."""

from __future__ import annotations

import io

import pytest
from django.core.management import CommandError, call_command
from django.db import connections

from django_agent_sessions.queries import search
from django_agent_sessions.testing import columns_containing
from tests.governance.redaction.planting import SECRET

from .conftest import ALIAS
from .scenario import execute, files_with, plant_everywhere, remove_everywhere, scrub

# A whole server each: ten seconds.
pytestmark = pytest.mark.process


def checkpoint() -> None:
    execute("CHECKPOINT")


def removed_from(server) -> dict[str, int]:
    """Plant and remove the secret; return the files that still have it."""
    plant_everywhere()
    execute("ANALYZE")
    checkpoint()
    remove_everywhere()
    assert columns_containing(SECRET, using=ALIAS) == []
    checkpoint()
    return files_with(server.data)


def test_no_byte_of_the_data_directory_has_what_was_redacted_and_deleted(private, settings):
    settings.AGENT_SESSIONS = {"FULL_TEXT_SEARCH": "simple"}
    call_command("agent_sessions_search_index", "create", stdout=io.StringIO())
    before = removed_from(private)
    table, index, statistics = (
        execute(f"SELECT pg_relation_filepath('{name}')")[0][0]
        for name in ("agent_sessions_sessionmessage", search.WORDS_INDEX, "pg_statistic")
    )
    assert {table, index, statistics} <= before.keys()
    assert any(name.startswith("pg_wal/") for name in before)

    # What was documented before: it frees rows, and overwrites nothing.
    execute("VACUUM (ANALYZE)")
    checkpoint()
    assert {table, index} <= files_with(private.data).keys()

    told = scrub()

    assert files_with(private.data) == {}
    assert "were rewritten" in told
    # The log is used again by what comes next.
    execute("CREATE TABLE later AS SELECT repeat('x', 1000) FROM generate_series(1, 30000)")
    checkpoint()
    assert files_with(private.data) == {}


def test_without_the_logs_only_they_have_it(private):
    removed_from(private)

    scrub("--tables-only")
    checkpoint()

    assert {name.partition("/")[0] for name in files_with(private.data)} == {"pg_wal"}


def test_a_dry_run_prints_statements_and_runs_none(private):
    before = removed_from(private)

    told = scrub("--dry-run")

    assert "VACUUM (FULL, ANALYZE) public.agent_sessions_sessionmessage;" in told
    assert "VACUUM (FULL) pg_catalog.pg_statistic;" in told
    assert files_with(private.data) == before


def test_statistics_that_cannot_be_discarded_are_reported(private):
    removed_from(private)
    execute("CREATE VIEW reasons AS SELECT reason FROM agent_sessions_auditevent")

    with pytest.raises(CommandError, match=r"statistics of .*auditevent.*a view depends on it"):
        scrub()


def test_a_table_in_partitions_is_rewritten_partition_by_partition(private):
    from django.db.migrations.executor import MigrationExecutor

    from django_agent_sessions.sql.partitioning import PartitionMessages

    state = MigrationExecutor(connections[ALIAS]).loader.project_state()
    with connections[ALIAS].schema_editor() as editor:
        PartitionMessages(partitions=16).database_forwards("agent_sessions", editor, state, state)
    removed_from(private)

    scrub()

    assert files_with(private.data) == {}


def test_rows_that_an_open_transaction_sees_are_reported_with_the_process(private):
    removed_from(private)
    reader = connections[ALIAS].copy()
    with reader.cursor() as cursor:
        cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        cursor.execute("SELECT pg_backend_pid(), count(*) FROM django_migrations")
        pid = cursor.fetchone()[0]

        with pytest.raises(CommandError, match=rf"\(process {pid}\).*longer --timeout"):
            scrub("--timeout", "1")

        cursor.execute("ROLLBACK")
    reader.close()
    scrub()
    assert files_with(private.data) == {}


def test_a_table_that_is_in_use_is_waited_for_and_not_for_ever(private):
    removed_from(private)
    reader = connections[ALIAS].copy()
    with reader.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("LOCK TABLE agent_sessions_session IN ACCESS SHARE MODE")

        with pytest.raises(CommandError, match=r"lock timeout.*run the command again"):
            scrub("--timeout", "1")

        cursor.execute("ROLLBACK")
    reader.close()
    assert execute("SHOW lock_timeout") == [("0",)]


def test_an_owner_who_is_no_superuser_is_told_what_is_left(private):
    removed_from(private)
    execute("CREATE ROLE app LOGIN")
    execute("ALTER DATABASE private OWNER TO app")
    for (name,) in execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'"):
        execute(f'ALTER TABLE "{name}" OWNER TO app')
    connections[ALIAS].close()
    connections[ALIAS].settings_dict["USER"] = "app"

    with pytest.raises(CommandError, match=r"left in the files:\n.*pg_wal.*pg_switch_wal"):
        scrub()
    scrub("--tables-only")

    connections[ALIAS].close()
    connections[ALIAS].settings_dict["USER"] = "postgres"
    checkpoint()
    assert {name.partition("/")[0] for name in files_with(private.data)} == {"pg_wal"}


@pytest.mark.parametrize("private", [{"wal_keep_size": "256MB"}], indirect=True)
def test_segments_that_are_kept_are_reported(private):
    removed_from(private)

    with pytest.raises(CommandError, match=r"segments of the write-ahead log .* are kept"):
        scrub()


def test_a_pooler_is_refused(private):
    connections[ALIAS].settings_dict["DISABLE_SERVER_SIDE_CURSORS"] = True

    with pytest.raises(CommandError, match=r"goes through a pooler"):
        scrub()
