"""After a scrub a secret is in no byte of MariaDB's data directory, logs included."""

from __future__ import annotations

import time

import pytest
from django.core.management import CommandError
from django.db import connections

from django_agent_sessions.models import Session
from django_agent_sessions.testing import columns_containing
from tests.governance.redaction.planting import SECRET

from .conftest import ALIAS
from .scenario import execute, files_with, plant_everywhere, remove_everywhere, scrub

# A whole server each: ten seconds.
pytestmark = pytest.mark.process

BINARY_LOG = {"log_bin": "binary", "binlog_format": "ROW", "server_id": "1"}


def flush() -> None:
    execute("SET GLOBAL innodb_log_checkpoint_now = ON")


def wait_for_purge() -> None:
    execute("SET GLOBAL innodb_max_purge_lag_wait = 0")


def removed_from(server, *, with_reader: bool = False) -> dict[str, int]:
    """Plant and remove the secret; return the files that still have it."""
    plant_everywhere()
    flush()
    reader = connections[ALIAS].copy()
    if with_reader:
        # So that the undo log grows, and is written to its pages.
        with reader.cursor() as cursor:
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
    remove_everywhere()
    assert columns_containing(SECRET, using=ALIAS) == []
    flush()
    reader.close()
    return files_with(server.data)


@pytest.mark.parametrize("with_reader", [False, True], ids=["purged", "long undo log"])
def test_no_byte_of_the_data_directory_has_what_was_redacted_and_deleted(private, with_reader):
    before = removed_from(private, with_reader=with_reader)
    assert {"ib_logfile0", "private/agent_sessions_sessionmessage.ibd"} <= before.keys()
    assert not with_reader or "ibdata1" in before
    execute("SET GLOBAL innodb_log_file_size = 33554432")
    size = execute("SELECT @@innodb_log_file_size")

    told = scrub()

    assert files_with(private.data) == {}
    assert "were rewritten" in told
    assert execute("SELECT @@innodb_log_file_size") == size
    assert execute("SHOW TABLES LIKE 'agent_sessions_scrub%'") == []
    # Nothing is written again when the server ends.
    connections[ALIAS].close()
    private.stop()
    assert files_with(private.data) == {}
    private.start()


def test_samples_that_were_taken_on_request_are_taken_again(private):
    plant_everywhere()
    # Of long texts, such as titles, there are no samples.
    Session.objects.update(external_id=SECRET)
    execute("ANALYZE TABLE agent_sessions_session PERSISTENT FOR ALL")
    Session.objects.update(external_id="o" * len(SECRET))
    remove_everywhere()
    sampled = f"SELECT 1 FROM mysql.column_stats WHERE max_value LIKE '%{SECRET}%'"
    assert execute(sampled)

    scrub()

    assert execute(sampled) == []
    tables = {"mysql/column_stats.MAD", "mysql/column_stats.MAI"}
    assert not tables & files_with(private.data).keys()


@pytest.mark.parametrize("private", [BINARY_LOG], indirect=True)
def test_binary_logs_are_reported_and_deleted_on_request(private):
    removed_from(private)

    with pytest.raises(CommandError, match=r"binary logs keep.*--purge-binary-logs"):
        scrub()
    assert {name.partition(".")[0] for name in files_with(private.data)} == {"binary"}

    scrub("--purge-binary-logs")
    assert files_with(private.data) == {}


def test_without_the_logs_only_they_have_it(private):
    removed_from(private)

    scrub("--tables-only")
    flush()

    assert files_with(private.data).keys() <= {"ib_logfile0", "ibdata1"}


@pytest.mark.parametrize(
    "private", [{"innodb_immediate_scrub_data_uncompressed": "ON"}], indirect=True
)
def test_a_server_that_overwrites_what_it_frees_keeps_it_in_its_logs_only(private):
    removed_from(private, with_reader=True)

    scrub("--tables-only")
    wait_for_purge()
    time.sleep(2)  # The pages are overwritten in the background.
    flush()

    # The redo log, and the undo log in the system tablespace.
    assert files_with(private.data).keys() <= {"ib_logfile0", "ibdata1"}


def test_a_dry_run_prints_statements_and_runs_none(private):
    before = removed_from(private)

    told = scrub("--dry-run")

    assert "OPTIMIZE TABLE `agent_sessions_sessionmessage`;" in told
    assert "innodb_log_file_size" in told
    assert files_with(private.data).keys() == before.keys()


def test_a_user_who_is_no_superuser_is_told_what_is_left(private):
    removed_from(private)
    execute("CREATE USER app@'127.0.0.1'")
    execute("GRANT ALL ON private.* TO app@'127.0.0.1'")
    connections[ALIAS].close()
    connections[ALIAS].settings_dict["USER"] = "app"
    try:
        with pytest.raises(CommandError, match=r"left in the files:\n.*column_stats.*\n.*redo log"):
            scrub()
        assert execute("SHOW TABLES LIKE 'agent_sessions_scrub%'") == []
    finally:
        connections[ALIAS].close()
        connections[ALIAS].settings_dict["USER"] = "root"
    assert not any(name.startswith("private/") for name in files_with(private.data))


def test_old_versions_that_an_open_transaction_reads_are_reported(private):
    plant_everywhere()
    reader = connections[ALIAS].copy()
    with reader.cursor() as cursor:
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        remove_everywhere()

        with pytest.raises(CommandError, match=r"undo log keeps former contents"):
            scrub("--timeout", "1")

        cursor.execute("ROLLBACK")
    reader.close()
    scrub()


def test_a_table_that_is_in_use_is_waited_for_and_not_for_ever(private):
    plant_everywhere()
    reader = connections[ALIAS].copy()
    with reader.cursor() as cursor:
        cursor.execute("START TRANSACTION")
        cursor.execute("SELECT COUNT(*) FROM agent_sessions_session")
        started = time.monotonic()

        with pytest.raises(CommandError, match=r"agent_sessions_session.*could not be rebuilt"):
            scrub("--timeout", "1")

        assert time.monotonic() - started < 30
        cursor.execute("ROLLBACK")
    reader.close()
