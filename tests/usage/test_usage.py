"""Usage is counted exactly, once, whatever happens meanwhile."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from io import StringIO

import pytest
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import connection, connections, transaction
from django.test.utils import CaptureQueriesContext, override_settings
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from django_agent_sessions import usage
from django_agent_sessions.models import MessageFeedback, SessionMessage, UsageCursor, UsageRollup
from django_agent_sessions.usage import histograms, ratings, rollups
from django_agent_sessions.values.ids import new_id
from tests.docs.test_examples import example
from tests.processes import go, outputs, ready
from tests.processes import start as start_process
from tests.usage.usage_data import (
    NOON,
    join,
    key_made_at,
    latencies_counted,
    message,
    nearest_rank,
    recount,
    rolled_up,
    rows_of,
    rows_of_agent,
    say,
    start,
)

pytestmark = pytest.mark.django_db

WORKER = "tests.usage.usage_process"
LATER = NOON + timedelta(days=40)

moments = st.integers(0, 35 * 24 * 60).map(lambda minutes: NOON + timedelta(minutes=minutes))
figures = st.fixed_dictionaries(
    {
        "input_tokens": st.none() | st.integers(0, 2**40),
        "output_tokens": st.none() | st.integers(0, 2**40),
        "latency_ms": st.none() | st.integers(0, 10**7),
        "has_error": st.booleans(),
    }
)
said = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.sampled_from(["a", "A", "a ", "<b>&", "\u00e9", "🐇"]),
        moments,
        figures,
    ),
    max_size=40,
)


def converse(conversation, owners) -> None:
    """Writes sessions 0 to 4, each with an owner of its own, and what was said in them."""
    sessions, agents, rows = {}, {}, []
    positions: Counter = Counter()
    for session, agent_id, at, columns in conversation:
        if session not in sessions:
            owner = owners[session] if session < len(owners) else None
            sessions[session] = start(f"session-{session}", at, owner, "AB "[session % 3 :])
        if (session, agent_id) not in agents:
            agents[session, agent_id] = join(sessions[session], agent_id)
        rows.append(message(agents[session, agent_id], positions[session, agent_id], at, **columns))
        positions[session, agent_id] += 1
    SessionMessage.objects.bulk_create(rows)


@given(conversation=said, batch=st.integers(1, 7), pauses=st.lists(moments, max_size=3))
def test_the_figures_are_those_of_a_plain_recount(conversation, batch, pauses):
    with transaction.atomic():
        owners = [get_user_model().objects.create_user(name) for name in ("ada", "bob")]
        converse(conversation, owners)
        for until in [*sorted(pauses), LATER]:
            usage.roll_up(batch=batch, until=until)
            usage.roll_up(batch=batch, until=until)

        assert rolled_up() == recount()
        expected: Counter = Counter()
        for session, agent_id, at, columns in conversation:
            if columns["latency_ms"] is not None:
                owner = str(owners[session].pk) if session < len(owners) else ""
                expected.update(rows_of(at, "AB "[session % 3 :], owner))
                expected.update(rows_of_agent(at, agent_id))
        assert latencies_counted() == expected
        transaction.set_rollback(True)


def test_a_second_roll_up_counts_nothing_twice():
    say(join(start("one", NOON)), [NOON] * 5, input_tokens=3)

    assert usage.roll_up(until=LATER) == usage.RollUpResult(5, 1, True)
    before = rolled_up()
    assert usage.roll_up(until=LATER) == usage.RollUpResult(0, 0, True)
    assert rolled_up() == before == recount()


def test_what_is_written_later_is_added():
    agent = join(start("one", NOON))
    say(agent, [NOON] * 5)
    usage.roll_up(until=NOON + timedelta(minutes=1))
    say(agent, [NOON + timedelta(minutes=2)] * 3)

    assert usage.roll_up(until=LATER) == usage.RollUpResult(3, 0, True)
    assert rolled_up() == recount()


def test_what_is_younger_than_ten_minutes_waits_because_older_keys_may_still_be_committed():
    now = timezone.now()
    agent = join(start("one", now - timedelta(minutes=30)))
    say(agent, [now - timedelta(minutes=20), now - timedelta(minutes=5)])

    assert usage.roll_up().messages == 1
    # A transaction that took long commits a key older than what was counted is young.
    say(agent, [now - timedelta(minutes=9, seconds=30)])
    assert usage.roll_up().messages == 0
    assert usage.roll_up(until=now + timedelta(seconds=1)).messages == 2


def test_without_time_zones_a_day_is_the_one_on_the_clock(settings):
    at = datetime(2026, 3, 31, 23, 59)
    session = start("one", at.replace(tzinfo=UTC))
    settings.USE_TZ = False
    type(session).objects.update(created_at=at)
    usage.roll_up(until=datetime(2026, 5, 1))

    assert usage.daily(1, until=at.date())[0].sessions == 1
    assert usage.counted_until() == datetime(2026, 5, 1)
    assert usage.today() == datetime.now().date()


def test_figures_stay_when_what_they_count_is_deleted_and_a_rebuild_forgets_it():
    session = start("one", NOON)
    say(join(session), [NOON] * 5)
    kept = start("two", NOON)
    say(join(kept), [NOON] * 2)
    usage.roll_up(until=LATER)
    before = rolled_up()

    session.delete()
    usage.roll_up(until=LATER)
    assert rolled_up() == before

    assert usage.rebuild(until=LATER) == usage.RollUpResult(2, 1, True)
    assert rolled_up() == recount() != before


def test_a_roll_up_with_little_time_stops_after_a_batch_and_says_how_far_it_came():
    agent = join(start("one", NOON))
    say(agent, [NOON + timedelta(hours=hour) for hour in range(5)])

    assert usage.roll_up(batch=2, until=LATER, seconds=0) == usage.RollUpResult(2, 1, False)
    assert usage.counted_until() == NOON + timedelta(hours=1)
    assert usage.roll_up(batch=2, until=LATER) == usage.RollUpResult(3, 0, True)
    assert usage.counted_until() == LATER
    # A roll-up that looks less far does not take that back.
    usage.roll_up(until=NOON)
    assert usage.counted_until() == LATER
    assert rolled_up() == recount()


def test_an_agent_has_as_many_sessions_as_conversations_it_began():
    one, two = start("one", NOON), start("two", NOON)
    for agent in (join(one, "rabbit"), join(two, "rabbit"), join(two, "fox")):
        say(agent, [NOON, NOON + timedelta(days=1)])
    usage.roll_up(until=LATER)

    agents = usage.top("agent", 2, until=date(2026, 4, 1))

    assert [(agent.key, agent.sessions, agent.messages) for agent in agents] == [
        ("rabbit", 2, 4),
        ("fox", 1, 2),
    ]


def test_the_agents_and_owners_that_said_most_come_first(django_user_model):
    users = [django_user_model.objects.create_user(f"user-{number}") for number in range(5)]
    for number, user in enumerate([*users, None], start=1):
        session = start(f"session-{number}", NOON, user)
        say(join(session, f"agent-{number}"), [NOON] * number, output_tokens=number)
    usage.roll_up(until=LATER)

    agents = usage.top("agent", 1, limit=3, until=NOON.date())
    assert [(agent.key, agent.messages) for agent in agents] == [
        ("agent-6", 6),
        ("agent-5", 5),
        ("agent-4", 4),
    ]
    owners = usage.by_owner(NOON.date(), limit=2)
    assert [(owner.key, owner.messages, owner.output_tokens) for owner in owners] == [
        ("", 6, 36),
        (str(users[4].pk), 5, 25),
    ]
    assert usage.by_owner(date(2026, 4, 1)) == []


def test_the_months_of_an_owner_are_the_last_ones_with_usage(django_user_model, monkeypatch):
    user = django_user_model.objects.create_user("user")
    session = start("session", NOON, user)
    say(join(session, "agent"), [NOON, NOON + timedelta(days=20)])
    usage.roll_up(until=LATER)

    now = datetime(2027, 2, 28, tzinfo=UTC)
    monkeypatch.setattr("django_agent_sessions.usage.figures.timezone.now", lambda: now)
    found = [(one.month, one.messages, one.sessions) for one in usage.by_month(user.pk)]
    assert found == [(date(2026, 4, 1), 1, 0), (date(2026, 3, 1), 1, 1)]
    assert [one.month for one in usage.by_month(user.pk, 11)] == [date(2026, 4, 1)]
    assert usage.by_month("another") == []
    # A user is found by the key, and not by a name that is the key of another.
    assert usage.by_month(user) == usage.by_month(user.pk)
    named = django_user_model.objects.create_user(str(user.pk))
    assert usage.by_month(named) == []


def test_what_is_highest_is_compared_with_the_days_before():
    now, before = NOON.date(), NOON - timedelta(days=1)
    for name, yesterday, today in (("steady", 3, 3), ("grew", 1, 5), ("gone", 7, 0), ("new", 0, 1)):
        say(join(start(name, NOON, namespace=f"of {name}"), name), [before] * yesterday)
        say(join(start(f"{name} 2", NOON, namespace=f"of {name}"), name), [NOON] * today)
    usage.roll_up(until=LATER)

    assert [
        (entry.key, entry.messages, entry.messages_before)
        for entry in usage.top("namespace", 1, before=1, until=now)
    ] == [("of grew", 5, 1), ("of steady", 3, 3), ("of new", 1, 0), ("of gone", 0, 7)]
    [first, *others] = usage.top("agent", 2, until=now, limit=3, latencies=1)
    assert (first.key, first.messages, first.messages_before) == ("gone", 7, 0)
    assert [other.key for other in others] == ["grew", "steady"]


def test_of_a_day_that_is_over_the_owners_with_the_highest_figures_are_kept(
    monkeypatch, django_user_model
):
    monkeypatch.setattr(rollups, "OWNERS_OF_A_DAY", 2)
    dear = {"input_tokens": 9, "model": "dear"}
    owners = [django_user_model.objects.create_user(f"user-{number}") for number in range(5)]
    for number, user in enumerate(owners, start=1):
        agent = join(start(user.username, NOON, user))
        say(agent, [NOON] * number, **(dear if number == 1 else {}))

    def kept() -> list[int]:
        return [owner.messages for owner in usage.top("owner", 1, until=NOON.date())]

    with override_settings(AGENT_SESSIONS={"PRICES": {"dear": {"input": 1}}}):
        usage.roll_up(until=NOON + timedelta(hours=11))
        assert kept() == [5, 4, 3, 2, 1]
        usage.roll_up(until=NOON + timedelta(hours=13))

    # Two by messages, and by costs the one that has any and the next.
    assert kept()[:2] == [5, 4]
    assert kept()[-1] == 1
    assert len(kept()) <= 4
    assert len(usage.by_owner(NOON.date())) == 5


def test_a_roll_up_until_a_later_time_ends_no_day(monkeypatch, django_user_model):
    monkeypatch.setattr(rollups, "OWNERS_OF_A_DAY", 1)
    for number in range(3):
        user = django_user_model.objects.create_user(f"user-{number}")
        now = timezone.now()
        say(join(start(user.username, now, user)), [now] * (number + 1))

    for _ in range(2):
        usage.roll_up(until=timezone.now() + timedelta(days=2))

    counted_at = UsageCursor.objects.get().counted_at
    assert counted_at is not None
    assert counted_at <= timezone.now()
    rows = UsageRollup.objects.filter(dimension=UsageRollup.Dimension.OWNER_DAY)
    assert sorted(rows.values_list("messages", flat=True)) == [1, 2, 3]


def test_ratings_are_counted_by_day_and_bounded(monkeypatch):
    session = start("one", NOON)

    def rate(value: int, at: datetime) -> None:
        MessageFeedback.objects.create(
            id=key_made_at(at), session=session, message_id=new_id(), value=value, created_at=at
        )

    for value, days in ((1, 2), (1, 2), (-1, 1), (0, 1), (-1, 0), (1, -1)):
        rate(value, NOON - timedelta(days=days))

    def counted() -> list[tuple[int | None, int | None]]:
        days = usage.daily_ratings(4, until=NOON.date())
        assert [day.day.day for day in days] == [28, 29, 30, 31]
        return [(day.good, day.bad) for day in days]

    with CaptureQueriesContext(connection) as captured:
        assert counted() == [(0, 0), (2, 0), (0, 1), (0, 1)]
    assert len(captured) == 2
    monkeypatch.setattr(ratings, "NEWEST", 3)
    assert counted() == [(None, None), (None, None), (0, 1), (0, 1)]


def test_ratings_are_counted_by_agent_model_owner_and_namespace(monkeypatch, ada, bob):
    rows = []
    for name, agent, owner, model in (
        ("a", "x", ada, "m"),
        ("b", "x", bob, ""),
        ("c", "y", None, "m"),
    ):
        session = start(name, NOON, owner, "shop" if owner else "")
        say(join(session, agent), [NOON], model=model)
        rows.append(SessionMessage.objects.get(session=session))

    def rate(row: SessionMessage, value: int, at: datetime = NOON) -> None:
        MessageFeedback.objects.create(
            id=key_made_at(at),
            session_id=row.session_id,
            message=row,
            value=value,
            source=f"{MessageFeedback.objects.count()}",
        )

    rate(rows[0], 1, NOON - timedelta(hours=1))
    rate(rows[0], 1)
    rate(rows[0], -1)
    rate(rows[0], 1, NOON - timedelta(days=3))
    rate(rows[1], -1)
    rate(rows[2], 0)

    with CaptureQueriesContext(connection) as captured:
        found = usage.ratings_by(2, until=NOON.date())
    assert len(captured) == 2
    assert found == {
        "agent": {"x": (2, 2), "y": (0, 0)},
        "model": {"m": (2, 1), "": (0, 1)},
        "owner": {str(ada.pk): (2, 1), str(bob.pk): (0, 1), "": (0, 0)},
        "namespace": {"shop": (2, 2), "": (0, 0)},
    }
    monkeypatch.setattr(ratings, "NEWEST", 4)
    assert usage.ratings_by(2, until=NOON.date())["agent"] == {"x": (1, 2), "y": (0, 0)}


def test_a_sum_has_the_percentiles_of_all_latencies_together():
    agent = join(start("one", NOON))
    say(agent, [NOON] * 9, latency_ms=100)
    say(agent, [NOON + timedelta(days=1)] * 9, latency_ms=9000)
    usage.roll_up(until=LATER)

    whole = usage.total(usage.daily(2, until=date(2026, 4, 1)))

    assert whole.messages == 18
    assert whole.p50 == pytest.approx(100, rel=0.05)
    assert whole.p95 == pytest.approx(9000, rel=0.05)
    assert usage.top("agent", 2, until=date(2026, 4, 1))[0].p95 == whole.p95


@given(st.lists(st.integers(0, 2**62), min_size=1, max_size=60), st.floats(0, 1))
def test_a_percentile_is_at_most_5_percent_from_the_exact_one(values, share):
    histogram = Counter(map(histograms.bucket_of, values))

    found = usage.percentile(histogram, share)

    assert found == pytest.approx(nearest_rank(values, share), rel=0.05)


def test_percentiles_of_an_owner_are_those_of_the_month(ada, bob):
    mine, other = (join(start(user.username, NOON, user), "rabbit") for user in (ada, bob))
    say(mine, [NOON - timedelta(days=1)] * 9, latency_ms=100)
    say(mine, [NOON] * 11, latency_ms=9000)
    say(mine, [NOON + timedelta(days=1)] * 50, latency_ms=1)
    say(other, [NOON], latency_ms=7)
    usage.roll_up(until=LATER)

    first, second = usage.by_owner(NOON.date())
    assert (first.key, second.key) == (str(ada.pk), str(bob.pk))
    assert first.p50 == pytest.approx(9000, rel=0.05)
    assert usage.percentile(first.latencies, 0.4) == pytest.approx(100, rel=0.05)
    assert second.p95 == pytest.approx(7, rel=0.05)


def test_without_latencies_there_is_no_percentile():
    assert usage.percentile({}, 0.5) is None
    assert usage.Figures().p95 is None


def test_a_batch_takes_as_many_statements_for_many_rows_as_for_few(django_user_model):
    def statements(sessions: int) -> int:
        for number in range(sessions):
            at = NOON + timedelta(seconds=UsageRollup.objects.count() + number)
            owner = django_user_model.objects.create_user(f"{at:%H%M%S}")
            say(join(start(f"{at}", at, owner), f"agent-{number}"), [at] * 3)
        with CaptureQueriesContext(connection) as captured:
            usage.roll_up(until=LATER)
        return len(captured)

    statements(1)
    assert statements(2) == statements(15)


def test_the_command_counts_and_says_so_in_a_line():
    say(join(start("one", NOON)), [NOON] * 5)

    def output(*arguments: str) -> str:
        out = StringIO()
        call_command("agent_sessions_roll_up_usage", *arguments, stdout=out)
        return out.getvalue()

    assert output().startswith(
        "counted 5 messages and 1 sessions; the figures are complete until 20"
    )
    assert output("--database", "default").startswith("counted 0 messages and 0 sessions; ")
    again = output("--rebuild")
    assert again.startswith("counted 5 messages and 1 sessions; ")
    assert again.count("\n") == 1


# --- several processes ----------------------------------------------------------------------------


def spread(sessions: int, messages: int) -> None:
    for number in range(sessions):
        agent = join(start(f"s-{number}", NOON + timedelta(hours=number)), f"agent-{number % 3}")
        times = [NOON + timedelta(hours=number, minutes=minute) for minute in range(messages)]
        say(agent, times, input_tokens=2, output_tokens=1, latency_ms=200)
    connections.close_all()


@pytest.mark.process
@pytest.mark.django_db(transaction=True)
def test_two_processes_at_once_count_everything_once():
    spread(40, 50)

    workers = [start_process(WORKER, 30, LATER.isoformat()) for _ in range(2)]
    ready(workers)
    go(workers)
    lines = outputs(workers)

    counted = [[int(line.split()[0]) for line in worker] for worker in lines]
    assert sum(map(sum, counted)) == 2000
    # Otherwise they would not have met.
    assert all(sum(worker) for worker in counted)
    assert rolled_up() == recount()
    assert sum(latencies_counted().values()) == 8 * 2000


@pytest.mark.process
@pytest.mark.django_db(transaction=True)
def test_a_roll_up_that_was_killed_is_gone_on_with_and_nothing_is_missing_or_twice():
    spread(40, 50)
    chance = random.Random(7)
    killed = 0
    for _ in range(4):
        worker = start_process(WORKER, 20, LATER.isoformat())
        ready([worker])
        go([worker])
        for _ in range(chance.randrange(3, 9)):
            worker.stdout.readline()
        worker.kill()
        killed += worker.wait() != 0
        worker.communicate()
    assert killed == 4
    assert UsageRollup.objects.filter(dimension="day").exists()
    assert UsageCursor.objects.get().message != SessionMessage.objects.latest("id").pk

    usage.roll_up(batch=20, until=LATER)

    assert rolled_up() == recount()
    assert sum(latencies_counted().values()) == 8 * 2000


def test_the_example_in_the_documentation_runs(capsys):
    at = timezone.now() - timedelta(hours=1)
    say(join(start("one", at), "rabbit"), [at] * 5, latency_ms=100)
    usage.roll_up()

    example("how-to/usage.md", "print_usage")()

    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 33
    assert printed[30].startswith("rabbit 5 ")
