"""The days of the figures are those of the reader's time zone, and nothing is lost between them."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from importlib import import_module
from types import SimpleNamespace
from zoneinfo import ZoneInfo

import pytest
from django.apps import apps
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from django_agent_sessions import usage
from django_agent_sessions.models import MessageFeedback, SessionMessage, UsageRollup
from tests.usage.usage_data import join, key_made_at, message, rolled_up, say, start

pytestmark = pytest.mark.django_db

# Every offset from -11 to +14, of half and of quarter hours too. Clocks change in Berlin by an hour
# at night, in Cairo and Santiago at midnight, on Lord Howe Island by half an hour, at Troll by two.
ZONES = [
    "UTC",
    "America/Chicago",
    "America/Santiago",
    "America/St_Johns",
    "Pacific/Pago_Pago",
    "Europe/Berlin",
    "Africa/Cairo",
    "Antarctica/Troll",
    "Asia/Kolkata",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "Pacific/Chatham",
    "Pacific/Kiritimati",
]
# In these, clocks change in all zones that change them.
SPANS = [datetime(2026, month, day, tzinfo=UTC) for month, day in ((3, 25), (4, 20), (10, 20))]
DAYS = 14


def plain_day(moment: datetime, zone: str) -> date:
    """The day of the zone in which the full hour of a time begins."""
    return moment.replace(minute=0).astimezone(ZoneInfo(zone)).date()


@given(
    zone=st.sampled_from(ZONES),
    begin=st.sampled_from(SPANS),
    minutes=st.lists(st.integers(0, DAYS * 24 * 60 - 1), max_size=30),
    days=st.integers(1, 5),
    before=st.integers(0, 5),
    back=st.integers(0, DAYS),
)
def test_figures_of_days_are_those_of_a_plain_recount(zone, begin, minutes, days, before, back):
    moments = [begin + timedelta(minutes=number) for number in minutes]
    last = (begin + timedelta(days=back)).date()
    by_day = Counter(plain_day(moment, zone) for moment in moments)
    shown = [last - timedelta(days=number) for number in reversed(range(days))]
    earlier = [shown[0] - timedelta(days=number + 1) for number in range(before)]
    with transaction.atomic(), timezone.override(zone):
        for number, moment in enumerate(moments):
            session = start(f"{number}", moment, namespace="shop")
            row = message(join(session, "rabbit"), 0, moment, latency_ms=100, input_tokens=2)
            SessionMessage.objects.bulk_create([row])
            MessageFeedback.objects.create(
                id=key_made_at(moment), session=session, message=row, value=1, created_at=moment
            )
        usage.roll_up(until=begin + timedelta(days=40))

        daily = usage.daily(days, until=last)
        found = [(one.day, one.messages, one.sessions) for one in daily]
        assert found == [(day, by_day[day], by_day[day]) for day in shown]
        assert [sum(one.latencies.values()) for one in daily] == [by_day[day] for day in shown]
        ratings = usage.daily_ratings(days, until=last)
        assert [(one.day, one.good) for one in ratings] == [(day, by_day[day]) for day in shown]
        now, then = (sum(by_day[day] for day in some) for some in (shown, earlier))
        for dimension in ("agent", "namespace"):
            entries = usage.top(dimension, days, before=before, until=last)
            assert [
                (one.messages, one.sessions, one.input_tokens, one.messages_before)
                for one in entries
            ] == ([(now, now, 2 * now, then)] if now else [])
            assert [sum(one.latencies.values()) for one in entries] == [now] * len(entries)
        assert usage.first_day() == (plain_day(min(moments), zone) if moments else None)
        transaction.set_rollback(True)


@pytest.mark.parametrize(
    ("zone", "day", "hours"),
    [
        ("Europe/Berlin", date(2026, 3, 29), 23),
        ("Europe/Berlin", date(2026, 10, 25), 25),
        ("America/Chicago", date(2026, 3, 8), 23),
        ("America/Chicago", date(2026, 11, 1), 25),
        ("America/Chicago", date(2026, 11, 2), 24),
        # Midnight does not exist.
        ("Africa/Cairo", date(2026, 4, 24), 23),
        ("America/Santiago", date(2026, 9, 6), 23),
    ],
)
def test_a_day_on_which_clocks_change_has_23_or_25_hours(zone, day, hours):
    begin = datetime(day.year, day.month, day.day, tzinfo=UTC) - timedelta(days=2)
    say(join(start("one", begin)), [begin + timedelta(hours=hour) for hour in range(5 * 24)])
    usage.roll_up(until=begin + timedelta(days=9))

    with timezone.override(zone):
        [figures] = usage.daily(1, until=day)
        [agent] = usage.top("agent", 1, until=day)

    assert figures.messages == agent.messages == hours


@pytest.mark.parametrize(
    ("zone", "begins"),
    [
        ("America/Chicago", "2026-06-10T00:00:00-05:00"),
        ("Asia/Kolkata", "2026-06-10T00:30:00+05:30"),
        ("Asia/Kathmandu", "2026-06-10T00:45:00+05:45"),
    ],
)
def test_a_day_begins_at_midnight_or_at_the_next_full_hour_of_utc(zone, begins):
    with timezone.override(zone):
        assert usage.midnight(date(2026, 6, 10)) == datetime.fromisoformat(begins)


def test_today_is_the_day_of_the_reader(monkeypatch):
    now = datetime(2026, 6, 10, 23, 30, tzinfo=UTC)
    monkeypatch.setattr("django_agent_sessions.usage.figures.timezone.now", lambda: now)
    say(join(start("one", now)), [now])
    usage.roll_up(until=now + timedelta(seconds=1))
    for zone, day in (("America/Chicago", 10), ("Europe/Berlin", 11), ("Asia/Kolkata", 11)):
        with timezone.override(zone):
            [figures] = usage.daily(1)
            assert (usage.today(), figures.messages) == (date(2026, 6, day), 1), zone
            assert figures.day == usage.today()
            assert usage.daily(1, until=date(2026, 6, 21 - day))[0].messages == 0


def test_an_hour_that_is_not_over_is_counted_in_parts():
    begin = datetime(2026, 6, 10, 13, tzinfo=UTC)
    agent = join(start("one", begin))
    for minute in (5, 25, 45):
        at = begin + timedelta(minutes=minute)
        say(agent, [at], latency_ms=100, output_tokens=3)
        usage.roll_up(until=at + timedelta(minutes=1))

    [row] = UsageRollup.objects.filter(dimension="hour")
    assert (row.period, row.hour) == (date(2026, 6, 10), 13)
    assert (row.sessions, row.messages, row.output_tokens) == (1, 3, 9)
    assert list(row.latencies.values()) == [3]


def test_owners_have_days_of_utc_everywhere(ada):
    late = datetime(2026, 6, 10, 23, 30, tzinfo=UTC)
    say(join(start("one", late, ada)), [late])
    usage.roll_up(until=late + timedelta(days=1))
    for zone in ("America/Chicago", "Pacific/Auckland"):
        with timezone.override(zone):
            [owner] = usage.top("owner", 1, until=date(2026, 6, 10))
            assert owner.messages == 1
            assert usage.top("owner", 1, until=date(2026, 6, 11)) == []
    assert not UsageRollup.objects.filter(key=str(ada.pk), hour__gt=0).exists()


def test_where_days_begin_as_in_utc_the_hours_are_not_read():
    begin = datetime(2026, 1, 10, 13, tzinfo=UTC)
    say(join(start("one", begin)), [begin])
    usage.roll_up(until=begin + timedelta(days=1))
    UsageRollup.objects.filter(dimension__in=UsageRollup.Dimension.of_hours().values()).delete()

    with timezone.override("Europe/London"), CaptureQueriesContext(connection) as captured:
        assert usage.daily(3, until=begin.date())[-1].messages == 1
        assert usage.top("agent", 3, until=begin.date())[0].messages == 1
    assert len(captured) == 3


def test_days_that_were_counted_before_there_were_hours_keep_their_date():
    migration = import_module("django_agent_sessions.migrations.0002_usage_hours")
    editor = SimpleNamespace(connection=connection)
    begin = datetime(2026, 6, 10, 5, tzinfo=UTC)
    say(join(start("one", begin)), [begin, begin + timedelta(days=1)], latency_ms=100)
    usage.roll_up(until=begin + timedelta(days=2))
    counted = rolled_up()

    migration.delete_hours(apps, editor)
    days = rolled_up()
    assert {name for name, *_ in days} == {"day", "agent", "namespace", "owner", "owner_day"}
    migration.add_hours(apps, editor)

    for zone in ("Pacific/Pago_Pago", "America/Chicago", "Asia/Kolkata", "Asia/Magadan"):
        with timezone.override(zone):
            found = [(one.messages, one.p50) for one in usage.daily(3, until=date(2026, 6, 12))]
            assert found == [(1, pytest.approx(100, 0.05))] * 2 + [(0, None)]
            assert usage.top("agent", 1, until=date(2026, 6, 11))[0].messages == 1
    # What is counted later is added.
    usage.roll_up(until=begin + timedelta(days=3))
    migration.delete_hours(apps, editor)
    assert rolled_up() == days
    usage.rebuild(until=begin + timedelta(days=3))
    assert rolled_up() == counted
