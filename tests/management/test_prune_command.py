"""What ``manage.py agent_sessions_prune`` says and deletes."""

from __future__ import annotations

import io
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from django_agent_sessions.governance import legal_hold
from django_agent_sessions.models import AuditEvent, Session
from django_agent_sessions.store import SessionStore

pytestmark = pytest.mark.django_db(transaction=True)

DAY = timedelta(days=1)


def run(*arguments: object) -> str:
    out = io.StringIO()
    call_command("agent_sessions_prune", *map(str, arguments), stdout=out)
    return out.getvalue()


@pytest.fixture(autouse=True)
def sessions(settings, ada):
    settings.AGENT_SESSIONS = {
        "RETENTION": {"SESSIONS": {"*": {"IDLE": 30 * DAY}, "support": {"AGE": 90 * DAY}}}
    }
    stores = {"": SessionStore(), "support": SessionStore(namespace="support")}
    for name, namespace, column, days in (
        ("old-1", "", "last_activity_at", 31),
        ("old-2", "", "last_activity_at", 40),
        ("held", "", "last_activity_at", 40),
        ("young", "", "last_activity_at", 20),
        ("aged", "support", "created_at", 91),
    ):
        store = stores[namespace]
        store.append(store.agents.open(store.open(name)), {"role": "user", "content": name})
        moment = timezone.now() - days * DAY
        Session.objects.filter(session_id=name).update(**{column: moment})
    legal_hold.hold(Session.objects.get(session_id="held").pk, reason="Case 7")
    Session.objects.filter(session_id="old-1").update(owner=ada)
    return None


def names() -> list[str]:
    return sorted(Session.objects.values_list("session_id", flat=True))


def test_a_dry_run_lists_what_would_go_by_namespace_and_rule():
    assert run("--dry-run").splitlines() == [
        "namespace  rule                          sessions  under legal hold",
        "(none)     time since the last activity         2                 1",
        "support    time since it was created            1                 0",
        "3 sessions (3 messages) would be deleted",
    ]
    assert len(names()) == 5


def test_a_run_says_what_it_deleted_and_records_it():
    assert run("--reason", "policy 4") == "3 sessions (3 messages) deleted\n"
    assert names() == ["held", "young"]
    event = AuditEvent.objects.get(action="pruned")
    assert (event.actor, event.reason) == ("agent_sessions_prune", "policy 4")
    assert run() == "0 sessions (0 messages) deleted\n"


def test_options_limit_it():
    assert run("--owner", "ada").startswith("1 session ")
    assert run("--no-owner", "--namespace", "support").startswith("1 session ")
    assert names() == ["held", "old-2", "young"]
    assert run("--older-than", "10").startswith("2 sessions ")
    assert names() == ["held"]


def test_a_run_whose_time_is_over_asks_for_another():
    assert run("--limit", "0.000001").splitlines()[-1] == (
        "Time limit reached: run the command again for the rest."
    )
    assert len(names()) == 5


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (["--older-than", "soon"], "use a number more than 0"),
        (["--older-than", "0"], "use a number more than 0"),
        (["--older-than", "500000"], "at most 365,000 days"),
        (["--owner", "nemo"], "matches no user"),
        (["--limit", "-1"], "use a number more than 0"),
    ],
)
def test_a_wrong_option_deletes_nothing(arguments, match):
    with pytest.raises(CommandError, match=match):
        run(*arguments)
    assert len(names()) == 5


def test_an_invalid_setting_is_a_sentence(settings):
    settings.AGENT_SESSIONS = {"RETENTION": {"SESSIONS": {"*": {"IDLE": 30}}}}
    with pytest.raises(CommandError, match="use a timedelta"):
        run()
    assert len(names()) == 5
