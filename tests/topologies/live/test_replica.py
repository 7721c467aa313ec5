"""A streaming replica of PostgreSQL that shows every commit two seconds late."""

from __future__ import annotations

import time

import pytest
from agents import Agent, Runner
from django.db import OperationalError, connections
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from django_agent_sessions.adapters.openai_agents import DjangoSession
from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.models import Session
from django_agent_sessions.models.session_databases import databases_with_sessions
from django_agent_sessions.store import SessionStore
from tests.adapters.openai_agents.scripted import ScriptedModel
from tests.rest.conftest import client_of

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "replica"])

SECRET = "4111 1111 1111 1111"
LIST = "/api/sessions/"
CHANGELIST = "/admin/agent_sessions/session/"


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


@pytest.fixture(autouse=True)
def routed(settings):
    settings.DATABASE_ROUTERS = ["tests.topologies.routers.ReplicaRouter"]


@pytest.fixture
def talk(ada):
    """A session in which a secret was said."""
    store = SessionStore(owner=ada)
    session = store.create("talk", title=f"Card {SECRET}")
    agent = store.agents.open(session, "concierge", dialect="strands")
    store.append(agent, {"role": "user", "content": [{"text": f"My card is {SECRET}."}]})
    return session


def test_the_replica_is_one():
    assert one("replica", "SELECT pg_is_in_recovery()")
    assert not one("default", "SELECT pg_is_in_recovery()")
    assert databases_with_sessions("default") == (["default"], [])


def test_own_queries_come_from_it_once_it_has_caught_up(talk, ada):
    assert not Session.objects.owned_by(ada).exists(), "the replica has it in two seconds"
    catch_up()
    assert Session.objects.owned_by(ada).get().pk == talk.id


def test_an_agent_goes_on_with_what_was_said_a_moment_ago(ada):
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


def test_what_was_redacted_is_on_no_page_while_the_replica_still_has_it(root, ada, talk):
    catch_up()
    redact(talk.id, Find(SECRET), reason="a card")
    api, url = client_of(ada), f"{LIST}{talk.id}/"
    page = reverse("admin:agent_sessions_session_change", args=[talk.id])
    pages = [LIST, f"{LIST}?q=4111", f"{url}messages/", f"{url}messages/?raw=true", url]
    for client, urls in ((api, pages), (root, [CHANGELIST, f"{CHANGELIST}?q=4111", page])):
        for address in urls:
            shown = client.get(address)
            assert shown.status_code == 200
            assert SECRET not in shown.content.decode(), address
    held = one(
        "replica",
        "SELECT count(*) FROM agent_sessions_sessionmessage WHERE message LIKE %s",
        f"%{SECRET}%",
    )
    assert held == 1, "the replica still had it"
