"""PostgreSQL's trigger on the audit trail: if it is gone, checks say so and how to get it back."""

from __future__ import annotations

import io

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction

from django_agent_sessions import audit
from django_agent_sessions.checks import check_triggers
from django_agent_sessions.models import AuditEvent, Session
from django_agent_sessions.sql.triggers import AUDIT, trigger_problem
from tests.integrity.running import check

pytestmark = pytest.mark.django_db

TABLE = AuditEvent._meta.db_table
NAME = "agent_sessions_audit_append_only"
DAMAGES = {
    "dropped": (f"DROP TRIGGER {NAME} ON {TABLE}", "missing"),
    "dropped with its function": (f"DROP FUNCTION {NAME} CASCADE", "missing"),
    "disabled": (f"ALTER TABLE {TABLE} DISABLE TRIGGER {NAME}", "disabled"),
    "disabled with all others": (f"ALTER TABLE {TABLE} DISABLE TRIGGER ALL", "disabled"),
    "for replicas only": (f"ALTER TABLE {TABLE} ENABLE REPLICA TRIGGER {NAME}", "disabled"),
    "without effect": (
        f"CREATE OR REPLACE FUNCTION {NAME}() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RETURN COALESCE(NEW, OLD); END $$",
        "changed",
    ),
    "for deletions only": (
        f"DROP TRIGGER {NAME} ON {TABLE}; CREATE TRIGGER {NAME} BEFORE DELETE ON {TABLE}"
        f" FOR EACH ROW EXECUTE FUNCTION {NAME}()",
        "changed",
    ),
    "under a condition": (
        f"DROP TRIGGER {NAME} ON {TABLE}; CREATE TRIGGER {NAME} BEFORE UPDATE OR DELETE ON"
        f" {TABLE} FOR EACH ROW WHEN (false) EXECUTE FUNCTION {NAME}()",
        "changed",
    ),
}


def execute(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


@pytest.fixture
def damaged(request):
    audit.record(AuditEvent.Action.READ)
    statement, problem = DAMAGES[request.param]
    # PostgreSQL refuses to alter a table with deferred checks of the same transaction.
    execute("SET CONSTRAINTS ALL IMMEDIATE")
    execute(statement)
    return problem


def test_a_trigger_in_force_is_no_finding():
    assert trigger_problem("default", AUDIT) == ""
    assert check_triggers(None, databases=["default"]) == []
    assert check() == ([], check()[1])


@pytest.mark.parametrize("damaged", DAMAGES, indirect=True)
def test_a_trigger_that_is_not_in_force_is_reported_and_created_again(damaged):
    (warning,) = check_triggers(None, databases=["default"])
    assert warning.id == "agent_sessions.W013"
    assert f"is {damaged}" in warning.msg
    assert "agent_sessions_check --fix" in str(warning.hint)
    found, _ = check()
    assert [(finding["code"], finding["detail"]) for finding in found] == [
        ("trigger", f"{NAME}: {damaged}")
    ]

    found, summary = check("--fix")

    assert [(finding["code"], finding["mended"]) for finding in found] == [("trigger", True)]
    assert summary["left"] == 0
    assert trigger_problem("default", AUDIT) == ""
    assert check()[0] == []
    with pytest.raises(DatabaseError, match="only ever added"), transaction.atomic():
        execute(f"DELETE FROM {TABLE}")
    event = AuditEvent.objects.get(action=AuditEvent.Action.REPAIRED)
    assert (event.actor, event.details) == (
        "agent_sessions_check",
        {"trigger": f"{NAME}: {damaged}"},
    )


@pytest.mark.parametrize("damaged", ["dropped"], indirect=True)
def test_people_are_told_what_is_wrong_and_what_to_do(damaged):
    out = io.StringIO()
    with pytest.raises(CommandError, match="1 finding left"):
        call_command("agent_sessions_check", stdout=out, stderr=io.StringIO())

    assert "error   trigger: a trigger of PostgreSQL that protects audit events" in out.getvalue()
    assert f"({NAME}: missing)" in out.getvalue()


@pytest.mark.parametrize("damaged", ["dropped"], indirect=True)
def test_a_user_who_does_not_own_the_table_is_told_so(damaged):
    execute("CREATE ROLE agent_sessions_reader")
    execute("GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA public TO agent_sessions_reader")
    execute("SET LOCAL ROLE agent_sessions_reader")

    found, summary = check("--fix")

    execute("RESET ROLE")
    assert found[0]["left"] == "only the owner of the table can create it"
    assert summary["left"] == 1


@pytest.mark.parametrize("damaged", ["dropped"], indirect=True)
def test_it_is_checked_where_all_sessions_are_and_where_the_database_is_asked(damaged, store):
    store.open("s")
    assert Session.objects.count() == 1

    assert check("s")[0] == []
    assert check_triggers(None) == []
    assert check_triggers(None, databases=["other"]) == []


# Only PostgreSQL has the trigger; what cannot run here is not collected.
if connection.vendor != "postgresql":
    del test_a_trigger_that_is_not_in_force_is_reported_and_created_again
    del test_people_are_told_what_is_wrong_and_what_to_do
    del test_a_user_who_does_not_own_the_table_is_told_so
    del test_it_is_checked_where_all_sessions_are_and_where_the_database_is_asked
