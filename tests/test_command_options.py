"""What somebody mistypes on the command line is told in a line, and nothing is done."""

from __future__ import annotations

import pytest
from django.core.management import CommandError, call_command

from django_agent_sessions import audit
from django_agent_sessions.models import AuditEvent

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    "command",
    [
        ["purge_audit_events", "--before", "2020-01-31"],
        ["agent_sessions_search_index", "status"],
        ["purge_redacted_originals"],
        ["roll_up_agent_usage"],
        ["agent_sessions_import", "jsonl", "-"],
        ["agent_sessions_export", "jsonl", "--reason", "none"],
    ],
)
def test_an_alias_that_is_none_is_told_with_those_that_are(command):
    with pytest.raises(CommandError, match=r"nope.*default"):
        call_command(*command, "--database", "nope")


@pytest.mark.parametrize(
    "moment",
    ["0001-01-01", "0001-01-01T00:00+14:00", "9999-12-31T23:59-14:00", "9999-12-31", "2026-13-01"],
)
def test_a_date_that_no_database_has_purges_nothing(moment):
    audit.record(AuditEvent.Action.READ)

    with pytest.raises(CommandError, match="--before"):
        call_command("purge_audit_events", "--before", moment)

    assert AuditEvent.objects.count() == 1
