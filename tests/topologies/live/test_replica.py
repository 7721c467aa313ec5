"""A streaming replica of PostgreSQL that shows every commit two seconds late."""

from __future__ import annotations

import time

import pytest
from agents import Agent, Runner
from django.db import OperationalError, connections
from django.test.utils import CaptureQueriesContext

from django_agent_sessions.adapters.openai_agents import DjangoSession
from django_agent_sessions.governance.redaction import Find, redact
from tests.adapters.openai_agents.scripted import ScriptedModel
from tests.rest.conftest import client_of
from tests.topologies.conftest import CHANGELIST, LIST, SECRET, Talk

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "replica"])


def one(alias: str, query: str, *values: str):
    with connections[alias].cursor() as cursor:
        cursor.execute(query, values)
        return cursor.fetchone()[0]


def catch_up() -> None:
    """Waits until the replica shows what is committed now."""
    with connections["default"].cursor() as cursor:
        # The tests' commits do not wait for the log to be written; this one does, for all of them.
        cursor.execute("SET synchronous_commit = on")
        cursor.execute("SELECT pg_logical_emit_message(true, 'tests', '')")
        cursor.execute("RESET synchronous_commit")
    written = one("default", "SELECT pg_current_wal_lsn()::text")
    while not one("replica", "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", written):
        time.sleep(0.05)


def asked() -> CaptureQueriesContext:
    return CaptureQueriesContext(connections["replica"])


@pytest.fixture(scope="module", autouse=True)
def there(django_db_setup, django_db_blocker):
    """The test's database, which the replica gets later than the test."""
    with django_db_blocker.unblock():
        deadline = time.monotonic() + 60
        while True:
            try:
                connections["replica"].ensure_connection()
                break
            except OperationalError:
                assert time.monotonic() < deadline
                time.sleep(0.2)
        catch_up()


@pytest.fixture
def api(ada):
    return client_of(ada)


def ids(answer) -> list[str]:
    return [row["id"] for row in answer.json()["results"]]


def test_the_replica_is_one():
    assert one("replica", "SELECT pg_is_in_recovery()")
    assert not one("default", "SELECT pg_is_in_recovery()")


def test_pages_come_from_it_once_it_has_caught_up(replicated, api, root, talk):
    catch_up()
    for client, url in ((api, LIST), (api, talk.messages), (root, CHANGELIST), (root, talk.page)):
        with asked() as statements:
            shown = client.get(url)
        assert shown.status_code == 200
        assert [q for q in statements if "agent_sessions_" in q["sql"]], url


def test_lists_are_as_late_as_the_replica_to_others_and_current_to_who_wrote(
    replicated, api, ada, talk
):
    catch_up()
    made = api.post(LIST, {"title": "New"}, format="json").json()["id"]
    assert made in ids(api.get(LIST))
    assert made not in ids(client_of(ada).get(LIST)), "the replica has it in two seconds"
    catch_up()
    assert made in ids(client_of(ada).get(LIST))


def test_an_agent_goes_on_with_what_was_said_a_moment_ago(replicated, ada):
    model = ScriptedModel(["Hello, Ada.", "Your name is Ada."])
    with asked() as statements:
        for text in ("I am Ada.", "Who am I?"):
            # As two requests would.
            session = DjangoSession("chat", owner=ada)
            Runner.run_sync(Agent(name="a", model=model), text, session=session)
    assert not statements.captured_queries
    seen = str(model.requests[-1])
    assert "I am Ada." in seen
    assert "Hello, Ada." in seen


@pytest.mark.parametrize("who", ["who redacted", "everybody else"])
def test_what_was_redacted_is_on_no_page_while_the_replica_still_has_it(
    replicated, api, root, ada, talk, who
):
    secret = Talk(ada, "secret", title=f"Card {SECRET}")
    catch_up()
    if who == "who redacted":
        for session in (talk, secret):
            url = f"{session.url}redact/"
            asked_for = {"find": SECRET, "reason": "a card"}
            assert api.post(url, asked_for, format="json").status_code == 200
    else:
        for session in (talk, secret):
            redact(session.session.id, Find(SECRET), reason="a card")
    pages = [LIST, f"{LIST}?q=4111", talk.messages, f"{talk.messages}?raw=true", talk.url]
    for client, urls in ((api, pages), (root, [CHANGELIST, f"{CHANGELIST}?q=4111", talk.page])):
        for url in urls:
            shown = client.get(url)
            assert shown.status_code == 200
            assert SECRET not in shown.content.decode(), url
    held = one(
        "replica",
        "SELECT count(*) FROM agent_sessions_sessionmessage WHERE message LIKE %s",
        f"%{SECRET}%",
    )
    assert held == 1, "the replica still had it"
    catch_up()
    assert SECRET not in api.get(talk.messages).content.decode()
