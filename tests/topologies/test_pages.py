"""Pages from a replica that stands still: a copy of the database, made when a test says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, connection, connections, transaction
from django.http import HttpResponse
from django.test.utils import CaptureQueriesContext

from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.models import AuditEvent
from django_agent_sessions.serving.middleware import reading_own_writes
from tests.rest.conftest import client_of

from .conftest import CHANGELIST, LIST, SECRET, Talk

pytestmark = [
    pytest.mark.django_db(transaction=True, databases=["default", "replica"]),
    pytest.mark.skipif("connection.vendor != 'sqlite'", reason="a file is copied"),
]


class Still:
    """A replica that shows what there was when it was last brought up to date."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def catch_up(self) -> None:
        connections["replica"].close()
        self.file.unlink(missing_ok=True)
        with connection.cursor() as cursor:
            cursor.execute("VACUUM INTO %s", [str(self.file)])


@pytest.fixture(scope="module", autouse=True)
def alias(tmp_path_factory, django_db_setup) -> Iterator[Path]:
    file = tmp_path_factory.mktemp("replica") / "replica.sqlite3"
    connections.settings["replica"] = {
        **connections.settings["default"],
        "NAME": str(file),
        "OPTIONS": {"init_command": "PRAGMA query_only=ON;"},
    }
    yield file
    connections["replica"].close()
    del connections["replica"]
    del connections.settings["replica"]


@pytest.fixture
def replica(alias, replicated, talk) -> Still:
    """A replica that has the session with the secret."""
    made = Still(alias)
    made.catch_up()
    return made


@pytest.fixture
def api(ada):
    return client_of(ada)


def ids(answer: Any) -> list[str]:
    return [row["id"] for row in answer.json()["results"]]


def hide(talk: Talk) -> None:
    """Redacts in another process: no browser was told."""
    redact(talk.session.id, Find(SECRET), reason="a card")


def asked() -> CaptureQueriesContext:
    return CaptureQueriesContext(connections["replica"])


# --- What comes from it --------------------------------------------------------------------------


def test_a_list_comes_from_the_replica(api, replica, ada, talk):
    late = Talk(ada, "late")
    with asked() as statements:
        assert ids(api.get(LIST)) == [str(talk.session.id)]
    assert len(statements) == 1

    replica.catch_up()
    assert ids(api.get(LIST)) == [str(late.session.id), str(talk.session.id)]


def test_messages_come_from_the_replica(api, replica, talk):
    with connection.cursor() as cursor:
        # Behind the store's back, so that nothing but the message tells.
        cursor.execute("UPDATE agent_sessions_sessionmessage SET text = 'x', message = '{}'")
    for url in (talk.messages, f"{talk.messages}?agent=concierge", f"{talk.messages}?q=card"):
        assert SECRET in api.get(url).content.decode()


def test_the_admin_reads_lists_and_transcripts_from_the_replica(root, replica, ada, talk):
    Talk(ada, "tardy")
    for url in (CHANGELIST, f"{CHANGELIST}?q=card", talk.page):
        with asked() as statements:
            shown = root.get(url).content.decode()
        assert statements.captured_queries
        assert "tardy" not in shown
        assert "talk" in shown


def test_a_search_of_the_replica_is_recorded_on_the_primary(root, replica, talk):
    assert root.get(f"{CHANGELIST}?q=card").status_code == 200
    # The search, and the message of which the list shows words.
    assert AuditEvent.objects.using("default").filter(action="searched").count() == 2


# --- What never does -----------------------------------------------------------------------------


def test_an_agent_goes_on_with_what_was_just_said(replica, talk):
    talk.say("One more thing.")
    with asked() as statements:
        restored = [payload for _, payload, _ in talk.store.messages.restore(talk.agent)]
    assert len(restored) == 2
    assert not statements.captured_queries


@pytest.mark.parametrize("method", ["post", "patch", "delete"])
def test_what_writes_does_not_ask_the_replica(api, replica, talk, method):
    with asked() as statements:
        if method == "post":
            answer = api.post(LIST, {"title": "New"}, format="json")
        else:
            answer = getattr(api, method)(talk.url, {"title": "Other"}, format="json")
    assert answer.status_code in (200, 201, 204)
    assert not statements.captured_queries


def test_a_stranger_is_turned_away_although_the_replica_knows_the_owner(replica, talk, ada):
    talk.store.delete("talk")
    assert client_of(ada).get(talk.messages).status_code == 404


def test_a_transaction_sees_what_it_wrote(api, replica, ada, talk):
    with transaction.atomic():
        late = Talk(ada, "late")
        late.say("Hello")
        with asked() as statements:
            assert str(late.session.id) in ids(api.get(LIST))
            assert "Hello" in api.get(late.messages).content.decode()
    assert not statements.captured_queries


# --- What was taken away -------------------------------------------------------------------------


def test_nobody_sees_on_a_transcript_what_was_redacted(api, root, replica, talk):
    hide(talk)
    for client, url in (
        (api, talk.messages),
        (api, f"{talk.messages}?raw=true"),
        (root, talk.page),
    ):
        shown = client.get(url)
        assert shown.status_code == 200
        assert SECRET not in shown.content.decode()
        assert "My card is" in shown.content.decode()


def test_nobody_finds_what_was_redacted(api, root, replica, talk):
    assert ids(api.get(LIST, {"q": SECRET})) == [str(talk.session.id)]
    hide(talk)
    assert ids(api.get(LIST, {"q": SECRET})) == []
    assert not api.get(talk.messages, {"q": SECRET}).json()["results"]
    assert talk.page not in root.get(CHANGELIST, {"q": SECRET}).content.decode()


def test_nobody_sees_a_title_that_was_redacted(api, root, replica, ada):
    secret = Talk(ada, "secret", title=f"Card {SECRET}")
    replica.catch_up()
    hide(secret)
    for client, url in ((api, LIST), (root, CHANGELIST)):
        assert SECRET not in client.get(url).content.decode()


def test_nobody_sees_a_session_that_was_deleted(api, root, replica, talk):
    talk.store.delete("talk")
    assert ids(api.get(LIST)) == []
    assert talk.page not in root.get(CHANGELIST).content.decode()


def test_nothing_is_shown_that_a_finished_turn_has_made_old(api, replica, talk):
    talk.say("One more thing.")
    talk.store.sessions.update(talk.session.id, title="Other plans")
    assert "One more thing." in api.get(talk.messages).content.decode()
    assert api.get(LIST).json()["results"][0]["title"] == "Other plans"


# --- Who has just written ------------------------------------------------------------------------


def test_who_has_just_written_sees_it(api, replica):
    made = api.post(LIST, {"title": "New"}, format="json").json()["id"]
    with asked() as statements:
        assert made in ids(api.get(LIST))
    assert not statements.captured_queries


def test_that_holds_for_whoever_wrote_and_for_a_while(api, replica, ada):
    answer = api.post(LIST, {"title": "New"}, format="json")
    cookie = answer.cookies["agent_sessions_wrote"]
    assert cookie["max-age"] == 10
    assert cookie["httponly"]
    assert answer.json()["id"] not in ids(client_of(ada).get(LIST))


def test_nothing_is_remembered_where_nothing_was_written_or_is_no_replica(api, replica, settings):
    assert not api.get(LIST).cookies
    settings.AGENT_SESSIONS = {}
    assert not api.post(LIST, {"title": "New"}, format="json").cookies


def test_who_keeps_no_cookies_can_ask_for_what_is_there_now(api, replica, ada):
    late = Talk(ada, "late")
    found = ids(api.get(LIST, headers={"cache-control": "no-cache"}))
    assert str(late.session.id) in found


async def test_the_middleware_is_async_too(replica, rf):
    async def view(request):
        return HttpResponse()

    middleware: Any = reading_own_writes(view)
    answer = await middleware(rf.post("/"))
    assert "agent_sessions_wrote" in answer.cookies


# --- When it is away -----------------------------------------------------------------------------


def test_the_primary_shows_the_page_where_the_replica_does_not_answer(
    api, root, replica, talk, monkeypatch, caplog
):
    def refuse(*args: Any) -> None:
        raise OperationalError(2002, "Can't connect")

    connections["replica"].close()
    monkeypatch.setattr(connections["replica"], "connect", refuse)
    assert ids(api.get(LIST)) == [str(talk.session.id)]
    assert SECRET in api.get(talk.messages).content.decode()
    assert talk.page in root.get(CHANGELIST, {"q": "card"}).content.decode()
    assert "'replica' is not available" in caplog.text


def test_what_is_wrong_with_a_question_is_said(api, replica):
    assert api.get(LIST, {"limit": "x"}).status_code == 400
