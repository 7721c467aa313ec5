"""The list of sessions as people use it: periods, metadata, costs, words, columns."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.test import override_settings
from django.urls import reverse
from django.utils import timezone

from django_agent_sessions.models import AuditEvent, RunLease, Session, SessionMessage
from django_agent_sessions.values.records import AgentState

from .people import many, staff
from .test_list import LIST, listed, names, page_of, row_text, statements

pytestmark = pytest.mark.django_db


@pytest.fixture
def reader(client):
    client.force_login(staff("reader", "view_session", "read_transcript"))
    return client


@pytest.fixture
def clerk(client):
    client.force_login(staff("clerk", "view_session"))
    return client


def say(store, name: str, *texts: str, **values):
    session = store.open(name, **values)
    agent = store.agents.open(session, dialect="openai")
    store.append_many(agent, [{"role": "user", "content": text} for text in texts])
    return session


# --- filters -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"activity_from": "2026-03-01"}, {"s-0", "s-1", "s-2"}),
        ({"activity_from": "2026-03-02"}, {"s-1", "s-2"}),
        ({"activity_until": "2026-03-02"}, {"s-0", "s-1"}),
        ({"activity_from": "2026-03-02", "activity_until": "2026-03-02"}, {"s-1"}),
        ({"activity_from": "", "activity_until": ""}, {"s-0", "s-1", "s-2"}),
    ],
)
def test_a_period_includes_both_its_days(clerk, parameters, expected):
    many(3, apart=timedelta(days=1))

    assert names(page_of(clerk, **parameters)) == expected


def test_a_period_is_one_of_the_current_time_zone(clerk, settings):
    session = Session.objects.create(session_id="late")
    Session.objects.filter(pk=session.pk).update(
        last_activity_at=datetime(2026, 3, 1, 23, 30, tzinfo=UTC)
    )

    with timezone.override("Europe/Berlin"):
        settings.TIME_ZONE = "Europe/Berlin"
        assert names(page_of(clerk, activity_from="2026-03-02")) == {"late"}
    settings.TIME_ZONE = "UTC"
    assert names(page_of(clerk, activity_from="2026-03-02")) == set()


@pytest.mark.parametrize("day", ["yesterday", "2026-13-01", "0001-01-01", "9999-12-31", "\x00"])
def test_a_day_that_cannot_be_leads_back_to_the_list(clerk, day):
    for name in ("activity_from", "activity_until"):
        response = clerk.get(reverse(LIST), {name: day})
        assert response.status_code in (200, 302)
        if response.status_code == 302:
            assert "e=1" in response["Location"]


@override_settings(AGENT_SESSIONS={"METADATA_FILTERS": ["team", "tier"]})
def test_metadata_that_the_project_names_is_filtered_by(reader, store):
    store.open("blue", metadata={"team": "blue", "tier": 2})
    store.open("red", metadata={"team": "red", "tier": "2"})
    store.open("none")

    assert names(page_of(reader, metadata_team="blue")) == {"blue"}
    assert names(page_of(reader, metadata_tier="2")) == {"blue", "red"}
    assert names(page_of(reader, metadata_tier="2", metadata_team="red")) == {"red"}
    assert 'name="metadata_team"' in page_of(reader)


@override_settings(AGENT_SESSIONS={"METADATA_FILTERS": ["team"]})
def test_metadata_is_not_filtered_for_who_may_not_read_it(clerk, store):
    store.open("blue", metadata={"team": "blue"})

    assert names(page_of(clerk, metadata_team="blue")) == set()


def test_metadata_that_the_project_does_not_name_cannot_be_filtered_by(reader, store):
    assert reader.get(reverse(LIST), {"metadata_team": "blue"}).status_code in (302, 400)


@override_settings(AGENT_SESSIONS={"PRICES": {"m": {"input": 1, "output": 1}}})
def test_sessions_are_filtered_by_cost(clerk):
    keys = many(3)
    for number, key in enumerate(keys):
        Session.objects.filter(pk=key).update(cost=number * 10**9)

    assert names(page_of(clerk, cost_from="1")) == {"s-1", "s-2"}
    assert names(page_of(clerk, cost_from="0.5", cost_until="1.5")) == {"s-1"}
    assert clerk.get(reverse(LIST), {"cost_from": "NaN"}).status_code == 302
    for endless in ("1e16", "-1e400", "1e200000", "1e999999", "1e9999999999", "Infinity", "9" * 99):
        # Python would need minutes to make an integer of some of them.
        assert clerk.get(reverse(LIST), {"cost_from": endless}).status_code == 302


@override_settings(AGENT_SESSIONS={"METADATA_FILTERS": ["team"]})
@pytest.mark.parametrize("value", ["NaN", "-Infinity", "1e999", "[" * 3000, "9" * 3000, "{}"])
@pytest.mark.parametrize("name", ["session_changelist", "session_all"])
def test_odd_metadata_finds_nothing(client, store, value, name):
    store.open("blue-one", metadata={"team": "blue"})
    client.force_login(staff("officer", "view_session", "read_transcript", "change_session"))
    response = client.get(reverse(f"admin:agent_sessions_{name}"), {"metadata_team": value})
    assert response.status_code == 200
    assert "blue-one" not in response.content.decode()


def test_running_sessions_are_marked_and_filtered_by(clerk):
    running, ended, _idle = many(3)
    now = timezone.now()
    RunLease.objects.create(session_id=running, expires_at=now + timedelta(minutes=1))
    RunLease.objects.create(session_id=ended, expires_at=now - timedelta(minutes=1))

    assert names(page_of(clerk, running="yes")) == {"s-0"}
    assert names(page_of(clerk, running="no")) == {"s-1", "s-2"}
    assert page_of(clerk).count('aria-label="Running"') == 1


def test_sessions_are_filtered_by_an_agents_id(clerk, store):
    for name, agents in {"one": ["support"], "two": ["support", "billing"], "three": ["x"]}.items():
        session = store.open(name)
        for agent in agents:
            store.agents.open(session, agent)

    assert names(page_of(clerk, agent="support")) == {"one", "two"}
    assert names(page_of(clerk, agent="billing")) == {"two"}
    assert names(page_of(clerk, agent="Billing")) == set()
    assert names(page_of(clerk, agent=" ")) == {"one", "two", "three"}
    assert 'name="agent" value="billing"' in page_of(clerk, agent="billing")


def test_the_list_can_begin_with_the_session_that_was_inactive_longest(clerk):
    keys = [str(key) for key in many(60, apart=timedelta(minutes=1))]

    first = page_of(clerk, oldest="1")
    assert listed(first) == keys[:50]
    from .test_list import flat, walk

    assert flat(walk(clerk, "next", first)) == keys
    assert listed(page_of(clerk)) == keys[:9:-1]


# --- words ----------------------------------------------------------------------------------------


def test_a_session_without_a_title_shows_its_first_words_to_who_may_read_them(reader, store):
    say(store, "untitled", "Where is <b>my</b>   parcel?", "Hello?")
    say(store, "titled", "Not shown", title="Parcels")

    page = page_of(reader)
    assert "Where is &lt;b&gt;my&lt;/b&gt; parcel?" in page
    assert "Not shown" not in page
    assert "Hello?" not in page


def test_who_may_not_read_sees_no_first_words(clerk, store):
    say(store, "untitled", "Where is my parcel?")

    assert "parcel" not in page_of(clerk)


def test_a_search_shows_the_words_around_what_it_found_and_records_each(reader, store):
    one = say(store, "one", "x " * 300 + "I was promised a Refund on <Tuesday>", title="Tea")
    two = say(store, "two", "refund please", title="Pot")
    say(store, "three", "nothing")

    page = page_of(reader, q="refund")

    assert "promised a <mark>Refund</mark> on &lt;Tuesday&gt;" in page
    assert "<mark>refund</mark> please" in page
    shown = AuditEvent.objects.filter(action="searched", session__isnull=False)
    assert set(shown.values_list("session", flat=True)) == {one.id, two.id}
    assert all(event.target and event.actor == "reader" for event in shown)


def test_ones_own_sessions_are_searched_without_a_record(client, store):
    user = staff("own", "view_session", "read_transcript")
    client.force_login(user)
    session = say(store, "mine", "refund")
    Session.objects.filter(pk=session.id).update(owner=user)

    assert "<mark>refund</mark>" in page_of(client, q="refund")
    assert not AuditEvent.objects.filter(session__isnull=False).exists()


# --- columns and views ----------------------------------------------------------------------------


def test_columns_are_chosen_by_the_address(clerk):
    Session.objects.create(session_id="one", namespace="shop-eu")

    page = page_of(clerk, columns="of_namespace,created,nonsense")
    assert "column-of_namespace" in page
    assert "column-created" in page
    assert "column-messages" not in page
    assert "column-conversation" in page
    assert "column-messages" in page_of(clerk)
    assert "column-active" not in page_of(clerk, columns="-")


def test_the_last_message_is_a_column_for_one_statement(reader, store):
    say(store, "one", "Where is it?", "Is <b>anybody</b> there?")
    # With encryption, the first page reads the owner's key.
    page = page_of(reader, columns="last_message")
    without = len(statements(reader))

    assert "Is &lt;b&gt;anybody&lt;/b&gt; there?" in page
    assert len(statements(reader, columns="last_message")) == without + 1
    for number in range(20):
        say(store, f"more {number}", "Hello", f"Bye {number}")
    agent = store.agents.list(store.get("one"))[0]
    store.branches.rewind(agent, 0)
    page = page_of(reader, columns="last_message")
    assert "anybody" not in page
    assert row_text(page).count("Where is it?") == 2
    assert "Bye 19" in page
    assert len(statements(reader, columns="last_message")) == without + 1


def test_who_may_not_read_sees_only_when_the_last_message_was(clerk, store):
    say(store, "one", "Where is it?")
    moment = SessionMessage.objects.get().created_at

    page = page_of(clerk, columns="last_message")
    assert f"{timezone.localtime(moment):%Y-%m-%d %H:%M}" in row_text(page)
    assert "Where" not in page


@pytest.mark.parametrize("may_read", [True, False])
def test_the_status_is_a_column_for_two_statements(client, store, may_read):
    client.force_login(staff("who", "view_session", *["read_transcript"] * may_read))
    for name in ("idle", "runs", "asks", "asks-too", "failed", "halted", "done"):
        store.open(name)
    key = {row.session_id: row.pk for row in Session.objects.all()}
    now = timezone.now()
    RunLease.objects.create(session_id=key["runs"], expires_at=now + timedelta(minutes=1))
    asks = AgentState({}, {}, {"interrupt_state": {"activated": True}})
    store.agents.open(store.get("asks"), "a", dialect="strands", data=asks)
    state = AgentState({"run_state": {"calls": ["c1"]}})
    store.agents.open(store.get("asks-too"), "a", dialect="openai", data=state)
    # Words of a user are no status.
    said = AgentState({"note": '"activated":true,"run_state":{'})
    store.agents.open(store.get("idle"), "a", dialect="strands", data=said)
    for name, status in (("failed", "failed"), ("halted", "interrupted"), ("done", "completed")):
        nodes = {"node_results": {"n": {"status": "failed"}}, "status": status}
        store.multi_agents.create(store.get(name), "graph", nodes)

    rows = row_status(page_of(client, columns="status"))
    shown = {"runs": "Running"}
    if may_read:
        shown |= dict.fromkeys(("asks", "asks-too", "halted"), "Waiting for a person")
        shown |= {"failed": "Failed"}
    assert rows == {name: shown.get(name, "–") for name in key}
    extra = len(statements(client, columns="status")) - len(statements(client))
    assert extra == (2 if may_read else 0)


def row_status(page: str) -> dict[str, str]:
    pattern = r'class="as-session[^"]*">([^<]*)<.*?field-status">(.*?)</td>'
    found = re.findall(pattern, page, re.DOTALL)
    return {name: text.strip() for name, text in found}


def test_the_empty_list_says_what_to_do(clerk):
    assert "They appear when an agent writes" in page_of(clerk)
    assert "Remove a filter" in page_of(clerk, held="yes")
