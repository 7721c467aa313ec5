"""PostgreSQL's notices: heard at once, and done without while they cannot be heard."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest
from django.conf import settings
from django.db import connection, connections, transaction
from django.test import override_settings

from django_agent_sessions.db import notifications
from django_agent_sessions.events.postgresql_listener import get_listener

from .client import Site, texts
from .conftest import Speaking, payload, serving

LISTENING = override_settings(AGENT_SESSIONS={"LISTEN_DATABASE": "default"})
POSTGRESQL = pytest.mark.skipif(
    settings.TEST_DATABASE != "postgresql", reason="only PostgreSQL has LISTEN"
)
NO_POOLER = pytest.mark.skipif(
    "PGDIRECTPORT" in os.environ,
    reason="a pooler in transaction mode passes no LISTEN on: LISTEN_DATABASE is the server itself",
)
pytestmark = [pytest.mark.django_db(transaction=True), NO_POOLER]


@pytest.fixture(scope="module")
def listening(django_db_setup, other_process) -> Iterator[str]:
    """A server that listens, and looks by itself so rarely that no test sees it."""
    with serving(EVENTS_LISTEN="default", EVENTS_POLL="1000") as (address, _):
        yield address


@pytest.fixture
def site(listening, ada) -> Iterator[Site]:
    found = Site(listening, ada)
    yield found
    found.client.close()


@pytest.fixture(autouse=True)
def nothing_said_before() -> None:
    notifications._last_sent.clear()


def pids() -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() "
            "AND query = 'LISTEN agent_sessions'"
        )
        return [pid for (pid,) in cursor.fetchall()]


def wait_for_listening(without: int = 0) -> int:
    deadline = time.monotonic() + 20
    while not (found := [pid for pid in pids() if pid != without]):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    (pid,) = found
    return pid


@pytest.fixture
def heard() -> Iterator[list[str]]:
    """What is said on the channel, as another client hears it."""
    ear = connections["default"].copy()
    ear.ensure_connection()
    ear.connection.execute(f"LISTEN {notifications.CHANNEL}")

    class Heard(list[str]):
        def now(self) -> list[str]:
            self.extend(notice.payload for notice in ear.connection.notifies(timeout=0.3))
            return self

    yield Heard()
    ear.close()


@POSTGRESQL
def test_a_message_is_heard_of_although_nobody_looks(site, talk):
    with LISTENING, site.stream(talk) as stream:
        stream.next("ready")
        wait_for_listening()
        # The looks that follow the beginning of a stream are over.
        time.sleep(3.5)
        talk.say("one")
        assert texts([stream.next()]) == ["one"]
        # Right behind the notice, and not said of any more.
        talk.say("two")
        talk.say("three", "b")
        assert texts([stream.next(), stream.next()]) == ["two", "three"]


@POSTGRESQL
def test_a_listener_whose_connection_is_killed_comes_back(site, talk):
    with LISTENING, site.stream(talk) as stream:
        stream.next("ready")
        pid = wait_for_listening()
        time.sleep(3.5)
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s)", [pid])
        talk.say("while nobody listens")
        assert texts([stream.next()]) == ["while nobody listens"]
        wait_for_listening(without=pid)
        time.sleep(3.5)
        notifications._last_sent.clear()
        talk.say("heard again")
        assert texts([stream.next()]) == ["heard again"]


@POSTGRESQL
def test_one_connection_listens_for_all_and_none_when_nobody_waits(site, talk, ada):
    other = Speaking(ada, "other")
    with LISTENING, site.stream(talk) as one, site.stream(other) as two:
        one.next("ready")
        two.next("ready")
        wait_for_listening()
        other.say("to the other")
        assert texts([two.next()]) == ["to the other"]
    deadline = time.monotonic() + 20
    while pids():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@POSTGRESQL
@LISTENING
def test_writers_say_it_once_a_second_and_say_no_content(talk, heard):
    for number in range(5):
        talk.say(f"secret {number}")
    assert heard.now() == [talk.id.hex]


@POSTGRESQL
@LISTENING
def test_in_a_transaction_it_is_said_after_the_commit_and_not_at_all_after_a_rollback(talk, heard):
    with transaction.atomic():
        talk.say("taken back")
        transaction.set_rollback(True)
    assert heard.now() == []
    with transaction.atomic():
        talk.say("kept")
        assert heard.now() == []
    assert heard.now() == [talk.id.hex]


@POSTGRESQL
@LISTENING
@pytest.mark.parametrize("what", ["change", "redact", "pop", "clear"])
def test_every_kind_of_change_is_said(talk, heard, what):
    talk.say("one")
    heard.now().clear()
    notifications._last_sent.clear()
    {
        "change": lambda: talk.change(0, "two"),
        "redact": lambda: talk.redact(0),
        "pop": talk.pop,
        "clear": lambda: talk.store.clear(talk.agents["a"]),
    }[what]()
    assert heard.now() == [talk.id.hex]


@POSTGRESQL
@LISTENING
def test_garbage_on_the_channel_disturbs_nobody(site, talk):
    with site.stream(talk) as stream:
        stream.next("ready")
        wait_for_listening()
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_notify('agent_sessions', 'nonsense')")
        talk.say("one")
        assert texts([stream.next()]) == ["one"]


@POSTGRESQL
@LISTENING
def test_a_notice_that_fails_fails_no_write(talk, caplog):
    agent = talk.agents["a"]
    with connection.execute_wrapper(_refusing):
        record = talk.store.append(agent, payload("kept"))
    assert record.message_id == 0
    assert "could not notify" in caplog.text
    assert "kept" not in caplog.text
    assert talk.store.append(agent, payload("and this")).message_id == 1


def _refusing(execute, sql, params, many, context):
    if "pg_notify" in sql:
        sql = "SELECT no_such_function()"
        params = []
    return execute(sql, params, many, context)


@pytest.mark.skipif(settings.TEST_DATABASE == "postgresql", reason="PostgreSQL has LISTEN")
@LISTENING
def test_elsewhere_the_setting_changes_nothing(talk):
    assert get_listener("default") is None
    assert talk.say("one").message_id == 0


def test_without_the_setting_nobody_listens(talk):
    assert os.environ.get("EVENTS_LISTEN") is None
    assert get_listener("default") is None


@LISTENING
def test_the_memory_of_who_spoke_is_bounded(monkeypatch):
    from uuid import UUID

    monkeypatch.setattr(notifications, "MIN_INTERVAL_SECONDS", 0.0)
    for number in range(3 * notifications._MAX_TRACKED):
        assert notifications._is_due(("default", UUID(int=number)))
    assert len(notifications._last_sent) <= notifications._MAX_TRACKED
