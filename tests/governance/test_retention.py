"""What is deleted after its retention time, what stays, and what the audit trail says of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_agent_sessions import signals
from django_agent_sessions.exceptions import ConfigurationError
from django_agent_sessions.governance import legal_hold, retention
from django_agent_sessions.governance.retention import Doomed, Rule, deletion_date, prune
from django_agent_sessions.leases import acquire
from django_agent_sessions.models import (
    AuditEvent,
    Session,
    SessionMessage,
    UsageRollup,
    deletion,
)
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.owners import NOBODY
from tests.store.conftest import reconnected  # noqa: F401 - a fixture
from tests.store.cutting import commit_lost, user

pytestmark = pytest.mark.django_db(transaction=True)

DAY = timedelta(days=1)
LIFETIMES = {
    "SESSIONS": {
        "*": {"IDLE": 30 * DAY},
        "support": {"AGE": 90 * DAY, "IDLE": 60 * DAY, "ARCHIVED": 10 * DAY},
        "contracts": {},
    }
}


@pytest.fixture(autouse=True)
def lifetimes(settings):
    settings.AGENT_SESSIONS = {"RETENTION": LIFETIMES}


def talk(name: str, *, namespace: str = "", messages: int = 1, **times: Any) -> Session:
    """Make a session; the times are days ago, by column."""
    store = SessionStore(namespace=namespace)
    session = store.open(name)
    if messages:
        store.append_many(
            store.agents.open(session), [user(f"{name} {n}") for n in range(messages)]
        )
    now = timezone.now()
    columns = {column: now - days * DAY for column, days in times.items()}
    Session.objects.filter(pk=session.id).update(**columns)
    return Session.objects.get(pk=session.id)


def names() -> set[str]:
    return set(Session.objects.values_list("session_id", flat=True))


def events(action: str) -> list[dict[str, Any]]:
    found = AuditEvent.objects.filter(action=action).order_by("id")
    columns = ("actor", "reason", "session", "target", "details")
    return [{column: getattr(event, column) for column in columns} for event in found]


CASES: list[tuple[str, dict[str, Any], Rule | None]] = [
    ("", {"last_activity_at": 31}, Rule.IDLE),
    ("", {"last_activity_at": 29, "created_at": 1000}, None),
    ("other", {"last_activity_at": 31}, Rule.IDLE),
    ("support", {"last_activity_at": 31}, None),
    ("support", {"last_activity_at": 61}, Rule.IDLE),
    ("support", {"created_at": 91}, Rule.AGE),
    ("support", {"created_at": 91, "last_activity_at": 80, "archived_at": 80}, Rule.AGE),
    ("support", {"archived_at": 11}, Rule.ARCHIVED),
    ("support", {"archived_at": 9}, None),
    ("contracts", {"created_at": 5000, "last_activity_at": 5000, "archived_at": 5000}, None),
    ("contracts", {"expires_at": 1}, Rule.EXPIRES),
    # A date of its own wins, earlier or later.
    ("", {"expires_at": 1}, Rule.EXPIRES),
    ("", {"expires_at": -1, "last_activity_at": 500}, None),
]


def test_each_session_is_deleted_by_one_rule_or_kept_and_its_page_says_so():
    expected: dict[Doomed, int] = {}
    kept = set()
    for number, (namespace, times, rule) in enumerate(CASES):
        session = talk(f"s{number}", namespace=namespace, **times)
        due = {row.pk for row in Session.objects.due()}
        date = deletion_date(session)
        assert (session.pk in due) == (rule is not None), CASES[number]
        assert (date is not None and date.at <= timezone.now()) == (rule is not None)
        if rule is None:
            kept.add(session.session_id)
        else:
            doomed = Doomed(namespace, rule)
            expected[doomed] = expected.get(doomed, 0) + 1

    planned = prune(dry_run=True)
    assert names() == {f"s{number}" for number in range(len(CASES))}
    report = prune()

    assert dict(planned.sessions) == dict(report.sessions) == expected
    assert planned.messages == report.messages == sum(expected.values())
    assert report.finished
    assert names() == kept
    assert not Session.objects.due().exists()
    assert SessionMessage.objects.count() == len(kept)


def test_a_date_says_which_lifetime_ends_first(settings):
    day = datetime(2026, 1, 1, tzinfo=UTC)
    session = Session(namespace="support", created_at=day, last_activity_at=day + 5 * DAY)
    assert deletion_date(session) == retention.DeletionDate(day + 65 * DAY, Rule.IDLE, 60 * DAY)
    session.archived_at = day + 6 * DAY
    assert deletion_date(session) == retention.DeletionDate(day + 16 * DAY, Rule.ARCHIVED, 10 * DAY)
    session.expires_at = day + 700 * DAY
    assert deletion_date(session) == retention.DeletionDate(session.expires_at, Rule.EXPIRES)
    session.legal_hold = True
    assert deletion_date(session) is None
    far = Session(last_activity_at=datetime(9999, 12, 30, tzinfo=UTC))
    assert deletion_date(far) is None


def test_without_lifetimes_only_expired_sessions_go(settings):
    settings.AGENT_SESSIONS = {}
    talk("expired", expires_at=1)
    talk("old", last_activity_at=5000, created_at=5000)

    assert prune().sessions.total() == 1
    assert names() == {"old"}


def test_a_session_under_legal_hold_stays_and_is_counted():
    held = talk("held", last_activity_at=31)
    talk("free", last_activity_at=31)
    legal_hold.hold(held.pk, reason="Case 7")

    planned = prune(dry_run=True)
    assert planned.held == {Doomed("", Rule.IDLE): 1}
    assert planned.sessions == {Doomed("", Rule.IDLE): 1}
    prune()

    assert names() == {"held"}
    assert SessionMessage.objects.count() == 1


@pytest.mark.parametrize("change", ["hold", "append", "expiry", "lease"])
def test_what_happens_between_the_choice_and_the_lock_keeps_a_session(monkeypatch, change):
    chosen = talk("chosen", last_activity_at=31)
    talk("other", last_activity_at=31)
    lease = []
    groups = deletion.groups

    def changed(rows, keys):
        found = list(groups(rows, keys))
        if change == "hold":
            legal_hold.hold(chosen.pk, reason="Case 7")
        elif change == "append":
            store = SessionStore()
            store.append(store.agents.open(store.get("chosen")), user("I am back"))
        elif change == "expiry":
            Session.objects.filter(pk=chosen.pk).update(expires_at=timezone.now() + DAY)
        else:
            lease.append(acquire(chosen.pk).__enter__())
        return found

    monkeypatch.setattr(deletion, "groups", changed)
    report = prune()

    assert names() == {"chosen"}
    assert (report.sessions.total(), report.skipped) == (1, 1)


def test_a_run_is_one_event_and_each_transaction_names_what_it_deleted(monkeypatch, ada):
    monkeypatch.setattr(deletion, "MAX_SESSIONS", 2)
    keys = [talk(f"s{n}", messages=n, last_activity_at=31 + n).pk for n in range(5)]

    report = prune(actor=ada, reason="retention policy 4")

    [run] = events("pruned")
    assert run == {
        "actor": "ada",
        "reason": "retention policy 4",
        "session": None,
        "target": report.run,
        "details": {
            "via": "prune",
            "sessions": 5,
            "messages": 10,
            "by_namespace": {"": {"idle": 5}},
            "finished": True,
        },
    }
    batches = events("deleted")
    assert [batch["target"] for batch in batches] == [report.run] * 3
    assert sum(batch["details"]["messages"] for batch in batches) == 10
    named = [key for batch in batches for key in batch["details"]["sessions"]]
    assert sorted(named) == sorted(map(str, keys))
    assert batches[-1]["session"] == keys[0]
    [found] = AuditEvent.objects.deletions_of(keys[2])
    assert str(keys[2]) in found.details["sessions"]
    assert AuditEvent.objects.deletions_of(keys[0]).count() == 1


def test_a_signal_is_sent_for_each_session_small_or_large(monkeypatch):
    monkeypatch.setattr(deletion, "MAX_MESSAGES", 3)
    keys = {talk(f"s{n}", messages=n, last_activity_at=31).pk for n in (1, 2, 5)}
    talk("young")
    told = []

    def receive(session, **kwargs):
        told.append(session)

    signals.session_deleted.connect(receive)
    try:
        prune()
    finally:
        signals.session_deleted.disconnect(receive)

    assert len(told) == 3
    assert set(told) == keys


def test_a_run_that_finds_nothing_records_nothing():
    talk("young")
    assert prune().finished
    assert not AuditEvent.objects.exists()


def test_a_large_session_goes_in_batches_and_is_recorded_once(monkeypatch):
    monkeypatch.setattr(deletion, "MAX_MESSAGES", 3)
    large = talk("large", messages=8, last_activity_at=31)
    talk("small", messages=2, last_activity_at=31)

    report = prune(actor="nightly")

    assert report.sessions == {Doomed("", Rule.IDLE): 2}
    assert report.messages == 10
    assert not Session.objects.exists()
    assert not SessionMessage.objects.exists()
    assert [(e["session"], e["target"], e["actor"]) for e in events("deleted")].count(
        (large.pk, report.run, "nightly")
    ) == 1


def test_what_a_killed_run_left_is_deleted_by_the_next(monkeypatch):
    monkeypatch.setattr(deletion, "MAX_MESSAGES", 3)
    talk("large", messages=8, last_activity_at=31)
    with monkeypatch.context() as patch:
        patch.setattr(deletion, "delete_session", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            prune()
    assert SessionMessage.objects.count() == 8
    assert names() == {str(Session.objects.get().pk)}

    prune()
    assert not Session.objects.exists()
    assert not SessionMessage.objects.exists()
    assert len(events("deleted")) == 1


def _interrupt(*args: Any, **kwargs: Any) -> None:
    raise KeyboardInterrupt


def test_a_run_whose_time_is_over_says_so_and_another_continues(monkeypatch):
    monkeypatch.setattr(deletion, "MAX_SESSIONS", 1)
    for number in range(3):
        talk(f"s{number}", last_activity_at=31)

    report = prune(seconds=1e-9)
    assert (report.finished, report.sessions.total()) == (False, 0)
    assert prune(seconds=60).finished
    assert not Session.objects.exists()


def test_a_run_can_be_limited_to_a_namespace_and_an_owner(ada):
    talk("mine", last_activity_at=31)
    talk("theirs", namespace="other", last_activity_at=31)
    Session.objects.filter(session_id="mine").update(owner=ada)

    assert prune(owner=NOBODY, namespace="").sessions.total() == 0
    assert prune(owner=ada, namespace="other").sessions.total() == 0
    assert prune(owner=ada).sessions.total() == 1
    assert names() == {"theirs"}
    assert prune(namespace="other").sessions.total() == 1


def test_an_idle_time_of_the_call_spares_namespaces_with_lifetimes_of_their_own():
    talk("default", last_activity_at=5)
    talk("contract", namespace="contracts", last_activity_at=5)
    talk("support", namespace="support", last_activity_at=5)
    talk("dated", expires_at=-1, last_activity_at=5)

    prune(older_than=4 * DAY)
    assert names() == {"contract", "support", "dated"}
    prune(older_than=4 * DAY, namespace="contracts")
    assert names() == {"support", "dated"}


def test_audit_events_and_usage_go_by_lifetimes_of_their_own(settings):
    settings.AGENT_SESSIONS = {"RETENTION": {"AUDIT_EVENTS": 100 * DAY, "USAGE": 40 * DAY}}
    now = datetime(2026, 3, 20, 12, tzinfo=UTC)
    for days in (101, 99):
        event = AuditEvent(action="read", created_at=now - days * DAY)
        event.save()
    for dimension in ("day", "owner"):
        for month in (1, 2, 3):
            UsageRollup.objects.create(
                dimension=dimension, period=datetime(2026, month, 1).date(), key="x"
            )

    assert prune(now=now, owner=NOBODY).audit_events == 0
    planned = prune(now=now, dry_run=True)
    report = prune(now=now)

    # The eighth of February is the first day that is kept, of a month of an owner all.
    assert planned.audit_events == report.audit_events == 1
    assert planned.usage_rows == report.usage_rows == 3
    left = UsageRollup.objects.values_list("dimension", "period__month")
    assert sorted(left) == [("day", 3), ("owner", 2), ("owner", 3)]
    assert AuditEvent.objects.filter(action="read").count() == 1
    [run] = events("pruned")
    assert (run["details"]["audit_events"], run["details"]["usage_rows"]) == (1, 3)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"SESSION": {}}, "no key 'SESSION'"),
        ({"SESSIONS": {"*": {"IDEL": DAY}}}, r"\['\*'\].* no key 'IDEL'"),
        ({"SESSIONS": {"*": {"IDLE": 30}}}, "is of type int: use a timedelta"),
        ({"SESSIONS": {"*": {"IDLE": -DAY}}}, "more than 0"),
        ({"SESSIONS": {"*": {"IDLE": 10**6 * DAY}}}, "at most 365,000 days"),
        ({"SESSIONS": {"*": None}}, "an empty one keeps the sessions"),
        ({"SESSIONS": {1: {}}}, "a key of type int"),
        ({"SESSIONS": {"a\n": {}}}, "control characters"),
        ({"SESSIONS": [1]}, "a dict of namespaces"),
        ({"AUDIT_EVENTS": "90d"}, r'\["AUDIT_EVENTS"\] is of type str'),
        ([], "must be a dict"),
    ],
)
def test_an_invalid_lifetime_deletes_nothing_and_is_named(settings, given, match):
    talk("expired", expires_at=1)
    settings.AGENT_SESSIONS = {"RETENTION": given}

    with pytest.raises(ConfigurationError, match=match):
        prune()

    assert names() == {"expired"}


@pytest.mark.usefixtures("reconnected")
@pytest.mark.parametrize("nested", [False, True])
def test_a_batch_whose_commit_was_not_confirmed_is_deleted_and_counted_once(nested):
    talk("one", last_activity_at=31)
    if nested:
        with transaction.atomic():
            report = prune()
    else:
        with commit_lost():
            report = prune()

    assert report.sessions.total() == 1
    assert len(events("deleted")) == 1
    assert not names()


def test_a_batch_takes_the_same_statements_whatever_its_size():
    def statements(count: int) -> int:
        for number in range(count):
            talk(f"s{number}", messages=3, last_activity_at=31)
        with CaptureQueriesContext(connection) as captured:
            assert prune().sessions.total() == count
        return len(captured)

    assert statements(40) == statements(2) <= 43
