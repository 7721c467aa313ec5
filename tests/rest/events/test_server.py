"""Streams from a real server: uvicorn in a process of its own, asked by httpx."""

from __future__ import annotations

import os
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection, connections

from django_agent_sessions.models import AuditEvent, Session, SessionAgent, SessionMessage
from tests import processes
from tests.admin.people import grant

from .client import texts
from .conftest import Speaking

pytestmark = pytest.mark.django_db(transaction=True)

STREAMS = 200


def wait_for(condition) -> None:
    deadline = time.monotonic() + 15
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_what_another_process_writes_is_told(site, talk):
    with site.stream(talk) as stream:
        assert stream.next("ready").data["session"] == str(talk.id)
        talk.say("Hello")
        told = stream.next()
    row = SessionMessage.objects.get()
    assert told.data["change"] == "new"
    assert told.data["id"] == str(row.pk)
    assert (told.data["agent"], told.data["position"], told.data["revision"]) == ("a", 0, 0)
    assert told.data["role"] == "user"
    assert told.data["parts"][0]["text"] == "Hello"


def test_a_message_is_told_as_the_rest_of_the_api_tells_it(site, talk):
    talk.say("Hello")
    with site.stream(talk, **{"from": "start"}) as stream:
        told = stream.next().data
    assert told.pop("change") == "new"
    assert told == site.client.get(f"/api/messages/{told['id']}/").json()


def test_a_stream_is_kept_back_by_nothing_on_the_way(site, talk):
    with site.stream(talk) as stream:
        headers = stream.response.headers
    assert headers["X-Accel-Buffering"] == "no"
    assert headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert "no-store" in headers["Cache-Control"]
    assert headers["Content-Encoding"] == "identity"


def test_growth_redaction_and_removal_are_told(site, talk):
    talk.say("a secret")
    talk.say("grows")
    with site.stream(talk) as stream:
        stream.next("ready")
        talk.change(1, "grows and grows")
        assert stream.next().data["change"] == "changed"
        talk.redact(0)
        redacted = stream.next().data
        assert (redacted["change"], redacted["position"]) == ("redacted", 0)
        assert "secret" not in str(redacted)
        talk.pop()
        assert stream.next("removed").data == {"agent": "a", "position": 1}
        talk.store.sessions.update(talk.id, title="A trip")
        assert stream.next("session").data["title"] == "A trip"


def test_an_agent_that_is_deleted_makes_the_client_read_anew_and_the_stream_goes_on(site, talk):
    talk.say("one", "b")
    with site.stream(talk) as stream:
        stream.next("ready")
        SessionAgent.objects.get(pk=talk.agents["b"].id).delete()
        assert stream.next("reset").data == {"reason": "agent removed"}
        talk.say("two")
        assert texts([stream.next()]) == ["two"]


def test_a_client_that_comes_back_misses_nothing_and_gets_nothing_twice(site, talk):
    with site.stream(talk) as stream:
        stream.next("ready")
        talk.say("one")
        stream.next()
        last = stream.last
    talk.say("two")
    talk.say("three", "b")
    with site.stream(talk, last=last) as stream:
        assert texts([stream.next(), stream.next()]) == ["two", "three"]
    with site.stream(talk, last_event_id=last) as stream:
        assert texts([stream.next()]) == ["two"]


def test_random_disconnects_while_two_processes_write_lose_and_double_nothing(site, talk):
    writers = [
        processes.start("tests.rest.events.writer", "talk", agent, 60, 0.02) for agent in "ab"
    ]
    processes.ready(writers)
    chance = random.Random(5)
    told: list[str] = []
    last = ""
    processes.go(writers)
    while len(told) < 120:
        query = {} if last else {"from": "start"}
        with site.stream(talk, last=last, **query) as stream:
            for _ in range(min(chance.randrange(1, 20), 120 - len(told))):
                told.append(stream.next().data["id"])
                last = stream.last
    written = [line for lines in processes.outputs(writers) for line in lines]
    assert len(told) == len(set(told))
    assert sorted(told) == sorted(written)


def test_a_strangers_session_answers_as_a_missing_one(site_of, talk, bob):
    stranger = site_of(bob)
    missing = stranger.get("01890000-0000-7000-8000-000000000000")
    theirs = stranger.get(talk)
    assert theirs.status_code == missing.status_code == 404
    assert theirs.json() == missing.json()
    assert theirs.headers["Content-Type"] == "application/problem+json"
    assert stranger.get(talk, scope="all").status_code == 404
    assert stranger.get("no-id").status_code == 404


def test_a_cursor_of_another_session_is_refused(site, ada, talk):
    other = Speaking(ada, "other")
    with site.stream(other) as stream:
        stream.next("ready")
        last = stream.last
    answer = site.get(talk, last_event_id=last)
    assert answer.status_code == 400
    assert "last_event_id" in answer.json()["errors"]
    assert site.get(talk, last_event_id="nonsense").status_code == 400
    assert site.get(talk, **{"from": "tomorrow"}).status_code == 400


def test_somebody_who_is_logged_out_is_refused(server, site, talk):
    site.client.cookies.clear()
    assert site.get(talk).status_code == 403


def test_a_deleted_session_ends_its_stream(site, talk):
    with site.stream(talk) as stream:
        stream.next("ready")
        talk.store.delete("talk")
        assert stream.next("end").data == {"reason": "gone"}


def test_a_session_that_is_given_to_somebody_else_ends_its_stream(site, talk, bob):
    with site.stream(talk) as stream:
        stream.next("ready")
        Session.objects.filter(pk=talk.id).update(owner=bob)
        talk.store = type(talk.store)()
        talk.say("for Bob only")
        rest = list(stream)
    assert [told.name for told in rest] == ["end"]


@pytest.mark.parametrize("taken", ["view_session", "read_transcript"])
def test_a_permission_that_is_taken_away_ends_a_stream_that_was_recorded_once(
    site_of, talk, bob, taken
):
    grant(bob, "view_session", "read_transcript")
    permission = bob.user_permissions.get(codename=taken)
    with site_of(bob).stream(talk, scope="all") as stream:
        stream.next("ready")
        (event,) = AuditEvent.objects.filter(action="read")
        assert event.actor_id == str(bob.pk)
        talk.say("seen")
        assert texts([stream.next()]) == ["seen"]
        bob.user_permissions.remove(permission)
        assert stream.next("end").data == {"reason": "gone"}
    assert AuditEvent.objects.filter(action="read").count() == 1


def test_a_user_who_is_deactivated_hears_no_more(site, talk, ada):
    with site.stream(talk) as stream:
        stream.next("ready")
        ada.is_active = False
        ada.save()
        assert stream.next("end").data == {"reason": "gone"}


def test_silence_is_interrupted_by_comments(site, talk):
    def later() -> None:
        time.sleep(1.2)
        talk.say("after a while")
        connections.close_all()

    with site.stream(talk) as stream:
        thread = threading.Thread(target=later)
        thread.start()
        stream.next()
        thread.join()
    assert stream.comments


def test_a_stream_ends_in_time_and_says_so(site, talk):
    talk.say("one")
    with site.stream(talk, url=f"/brief/{talk.id}/", **{"from": "start"}) as stream:
        told = list(stream)
    assert [one.name for one in told] == ["ready", "message", "end"]
    assert told[-1].data == {"reason": "time"}


def test_one_user_has_so_many_streams_and_gets_places_back(site, talk):
    url = f"/brief/{talk.id}/"
    with ExitStack() as stack:
        streams = [stack.enter_context(site.stream(talk, url=url)) for _ in range(3)]
        refused = site.client.get(url)
        assert refused.status_code == 429
        assert refused.headers["Retry-After"] == "10"
        assert all(stream.next("ready") for stream in streams)
    wait_for(lambda: site.client.head(url).status_code == 200)

    def again() -> bool:
        with site.client.stream("GET", url) as response:
            return bool(response.status_code == 200)

    wait_for(again)


def test_other_methods_do_not_stream(site, talk):
    head = site.client.head(site.url(talk))
    assert head.status_code == 200
    assert head.headers["Content-Type"].startswith("text/event-stream")
    assert site.client.head(site.url("01890000-0000-7000-8000-000000000000")).status_code == 404
    assert site.client.options(site.url(talk)).status_code == 200
    assert site.client.post(site.url(talk)).status_code in (403, 405)


def held_by(pid: int) -> int:
    """How many connections to the database a server holds at this moment."""
    if settings.TEST_DATABASE == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity "
                "WHERE application_name = 'events-server' AND datname = current_database()"
            )
            return int(cursor.fetchone()[0])
    # SQLite keeps the file itself open for a while after a connection was closed.
    name = f"{settings.DATABASES['default']['NAME']}-wal"
    found = 0
    for file in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found += os.readlink(file) == name
        except FileNotFoundError:
            continue
    return found


@pytest.mark.skipif("PGDIRECTPORT" in os.environ, reason="a pooler keeps what we close")
@pytest.mark.skipif(settings.TEST_DATABASE == "mariadb", reason="shown by the two others")
def test_two_hundred_idle_streams_hold_no_connection(server, site, talk):
    with ExitStack() as stack:
        url = f"/idle/{talk.id}/"

        def open_one(_):
            return stack.enter_context(site.stream(talk, url=url))

        with ThreadPoolExecutor(8) as pool:
            site.client._transport._pool._max_connections = STREAMS + 10
            streams = list(pool.map(open_one, range(STREAMS)))
        for stream in streams:
            stream.next("ready")
        # One look at a time for all of them, on a connection that is closed a moment later.
        wait_for(lambda: held_by(server[1]) <= 1)
        time.sleep(1)
        assert max(held_by(server[1]) for _ in range(20)) <= 1
        talk.say("to all")
        assert {texts([stream.next()])[0] for stream in streams} == {"to all"}
