from __future__ import annotations

import time
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from django_agent_sessions.checks import check_storage
from django_agent_sessions.exceptions import ConfigurationError
from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.queries import search
from django_agent_sessions.queries.search import find_messages, find_sessions
from tests.processes import Process, start

on_postgresql = pytest.mark.skipif(
    connection.vendor != "postgresql", reason="full-text search is PostgreSQL's"
)
elsewhere = pytest.mark.skipif(connection.vendor == "postgresql", reason="about the others")


@pytest.fixture
def say(db, store):
    """Says something in a session, which is made if need be."""

    def said(name: str, *texts: str):
        agent = store.agents.open(store.open(name), dialect="openai")
        return [
            record.id
            for record in store.append_many(
                agent, [{"role": "user", "content": text} for text in texts]
            )
        ]

    return said


def found(query: str, content: bool = True, sessions=None) -> set[str]:
    rows = Session.objects.all() if sessions is None else sessions
    result = find_sessions(query, sessions=rows, content=content)
    return {row.session_id for row in Session.objects.filter(pk__in=result.sessions)}


# --- by name -----------------------------------------------------------------------------------


def test_an_id_has_to_be_exact(say):
    say("user-1", "x")
    say("user-12", "x")

    assert found("user-1", content=False) == {"user-1"}
    assert found("USER-1", content=False) == set()
    assert found("user", content=False) == set()


def test_an_owner_is_found_by_the_beginning_of_the_name_in_any_case(say, ada):
    say("user-1", "x")
    Session.objects.update(owner=ada)

    for query in ("ada", "Ad", "A"):
        assert found(query, content=False) == {"user-1"}
    for query in ("da", "adaa", "%", "_da"):
        assert found(query, content=False) == set()


def test_content_is_only_searched_when_that_is_asked_for(say, store):
    say("user-1", "about zebras")
    store.open("user-2", title="Zebras")

    assert found("zebra") == {"user-1", "user-2"}
    assert found("zebra", content=False) == set()


@elsewhere
def test_all_words_are_found_anywhere_and_phrases_as_they_are(say, store):
    say("refund", "I promise you a full Refund of 100 %")
    say("other", "A refund is not possible")
    store.open("titled", title="Promise of a refund")

    assert found("promise refund") == found("REFUND promise") == {"refund", "titled"}
    assert found("refund") == {"refund", "other", "titled"}
    assert found('"full refund"') == {"refund"}
    assert found('"refund full"') == found("promise zebra") == set()
    assert found('"100 %"') == found('you "full refund" %') == {"refund"}
    [message] = SessionMessage.objects.filter(session__session_id="refund")
    assert find_messages(message.session_id, "refund promise") == [message.pk]
    assert find_messages(message.session_id, '"refund promise"') == []


@pytest.mark.parametrize("query", ["", "  ", "\n"])
def test_nothing_finds_nothing(say, query):
    say("user-1", "x")

    assert found(query) == set()


def test_text_that_no_column_carries_is_found_as_what_stands_for_it(say):
    say("user-1", "a\x00b")

    assert found("a\x00b") == {"user-1"}


# --- how much is looked at ---------------------------------------------------------------------


@override_settings(AGENT_SESSIONS={"SEARCH_CANDIDATES": 3})
def test_only_the_newest_messages_are_looked_at_and_that_is_said(say):
    say("old", "zebra")
    say("new", "one", "two", "three")

    result = find_sessions("zebra", sessions=Session.objects.all(), content=True)
    assert result.sessions == frozenset()
    assert result.limited
    say("new", "zebra")
    assert found("zebra") == {"new"}


@override_settings(AGENT_SESSIONS={"SEARCH_CANDIDATES": 3})
def test_all_are_looked_at_while_they_are_no_more_than_the_candidates(say):
    say("old", "zebra", "one", "two")

    result = find_sessions("zebra", sessions=Session.objects.all(), content=True)
    assert len(result.sessions) == 1
    assert not result.limited


@override_settings(AGENT_SESSIONS={"SEARCH_CANDIDATES": 2})
def test_only_the_newest_titles_are_looked_at(store, db):
    for number in range(4):
        store.open(f"s-{number}", title="Report")

    assert found("report") >= {"s-2", "s-3"}
    assert "s-0" not in found("report")


def test_more_matches_than_are_taken_are_said(say, monkeypatch):
    monkeypatch.setattr(search, "MAX_MATCHES", 3)
    for number in range(5):
        say(f"s-{number}", "zebra")

    result = find_sessions("zebra", sessions=Session.objects.all(), content=True)
    assert result.truncated
    assert found("zebra") == {"s-2", "s-3", "s-4"}
    assert not find_sessions("s-1", sessions=Session.objects.all(), content=True).truncated


def test_somebody_with_few_sessions_finds_in_them_whatever_others_say(say, ada, monkeypatch):
    say("mine", "zebra")
    say("others", *["zebra"] * 9)
    Session.objects.filter(session_id="mine").update(owner=ada)
    monkeypatch.setattr(search, "MAX_MATCHES", 3)

    with override_settings(AGENT_SESSIONS={"SEARCH_CANDIDATES": 3}):
        assert found("zebra", sessions=Session.objects.owned_by(ada)) == {"mine"}


def test_among_many_sessions_only_theirs_are_found(say, ada, monkeypatch):
    say("mine", "zebra")
    say("mine-2", "zebra")
    say("others", "zebra")
    Session.objects.exclude(session_id="others").update(owner=ada)
    monkeypatch.setattr(search, "MAX_SESSIONS_IN_SCOPE", 1)

    assert found("zebra", sessions=Session.objects.owned_by(ada)) == {"mine", "mine-2"}


def test_a_search_takes_as_many_statements_for_many_messages_as_for_few(say):
    def statements() -> int:
        with CaptureQueriesContext(connection) as captured:
            find_sessions("zebra", sessions=Session.objects.all(), content=True)
        return len(captured)

    say("s-0", "zebra")
    few = statements()
    for number in range(30):
        say(f"s-{number}", *["zebra"] * 5)

    assert statements() == few


# --- in one session ----------------------------------------------------------------------------


def test_messages_of_one_session_are_found_oldest_first(say):
    keys = say("s", "Zebra one", "two", "a ZEBRA", "z_bra")
    say("other", "zebra")
    session = Session.objects.get(session_id="s").pk

    assert find_messages(session, "zebra") == [keys[0], keys[2]]
    assert find_messages(session, "z_bra") == [keys[3]]
    assert find_messages(session, " ") == []
    assert find_messages(session, "nothing") == []


def test_the_newest_matches_are_kept_where_there_are_too_many(say):
    keys = say("s", *["zebra"] * 5)
    session = Session.objects.get(session_id="s").pk

    assert find_messages(session, "zebra", limit=2) == keys[3:]
    with override_settings(AGENT_SESSIONS={"SEARCH_CANDIDATES": 3}):
        assert find_messages(session, "zebra") == keys[2:]


# --- with an index -----------------------------------------------------------------------------


def index(action: str) -> str:
    out = StringIO()
    call_command("agent_sessions_search_index", action, stdout=out)
    return out.getvalue()


def words_index() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT indexdef FROM pg_indexes WHERE indexname = %s", [search.WORDS_INDEX])
        row = cursor.fetchone()
    return row[0] if row else ""


def told_by_check() -> str:
    errors = StringIO()
    call_command("check", "--database", "default", stderr=errors, stdout=StringIO())
    return errors.getvalue()


FULL_TEXT = override_settings(AGENT_SESSIONS={"FULL_TEXT_SEARCH": "simple"})


@on_postgresql
@FULL_TEXT
def test_words_phrases_and_exceptions_are_found(say):
    say("one", "the quick brown fox")
    say("two", "a brown quick bear")

    assert found("quick brown") == {"one", "two"}
    assert found('"quick brown"') == {"one"}
    assert found("brown -fox") == {"two"}
    assert found("fox or bear") == {"one", "two"}
    assert found("row") == set()
    for odd in ("'", '"', "-", "or", "\\", "!", "(", "&", ":*", "%s", "%(x)s"):
        found(odd)


@on_postgresql
@override_settings(AGENT_SESSIONS={"FULL_TEXT_SEARCH": "english"})
def test_a_language_knows_its_forms(say):
    say("one", "several invoices")

    assert found("invoice") == {"one"}


@on_postgresql
@override_settings(AGENT_SESSIONS={"FULL_TEXT_SEARCH": "simple", "SEARCH_CANDIDATES": 2})
def test_with_an_index_old_messages_are_found_too(say):
    say("old", "zebra")
    say("new", "one", "two", "three")

    result = find_sessions("zebra", sessions=Session.objects.all(), content=True)
    assert len(result.sessions) == 1
    assert not result.truncated


@on_postgresql
@override_settings(AGENT_SESSIONS={"FULL_TEXT_SEARCH": "simple", "SEARCH_CANDIDATES": 9})
def test_the_newest_are_found_of_what_too_many_messages_say(say, monkeypatch):
    monkeypatch.setattr(search, "MAX_MATCHES", 3)
    for number in range(9):
        say(f"s-{number}", "zebra")

    result = find_sessions("zebra", sessions=Session.objects.all(), content=True)
    assert result.truncated
    assert found("zebra") == {"s-6", "s-7", "s-8"}


@on_postgresql
@override_settings(AGENT_SESSIONS={"FULL_TEXT_SEARCH": "simple", "SEARCH_CANDIDATES": 3})
def test_what_many_chosen_sessions_may_hide_is_said(say, ada, monkeypatch):
    say("others", *["zebra"] * 9)
    say("mine", "a zebra")
    say("mine-2", *["hello"] * 3)
    Session.objects.exclude(session_id="others").update(owner=ada)
    own = Session.objects.owned_by(ada)

    assert not find_sessions("zebra", sessions=own, content=True).limited
    monkeypatch.setattr(search, "MAX_SESSIONS_IN_SCOPE", 1)
    assert find_sessions("zebra", sessions=own, content=True).limited
    # What others have written makes no difference.
    assert find_sessions("gondola", sessions=own, content=True).limited


@on_postgresql
@pytest.mark.parametrize("name", ["simple'); --", "", "a b", "a.b.c"])
def test_what_cannot_name_a_configuration_gets_into_no_statement(say, name):
    with (
        override_settings(AGENT_SESSIONS={"FULL_TEXT_SEARCH": name}),
        pytest.raises(ConfigurationError, match="FULL_TEXT_SEARCH"),
    ):
        found("zebra")


@on_postgresql
@pytest.mark.django_db(transaction=True)
def test_the_index_is_made_once_repaired_remade_and_dropped():
    try:
        with FULL_TEXT:
            assert "absent" in index("status")
            assert "was created" in index("create")
            assert "'simple'" in words_index()
            assert "ready" in index("status")
            assert "already exists" in index("create")
            with connection.cursor() as cursor:
                cursor.execute(
                    "UPDATE pg_index SET indisvalid = false WHERE indexrelid = to_regclass(%s)",
                    [search.WORDS_INDEX],
                )
            assert "invalid" in index("status")
            assert "it will be replaced" in index("create")
            assert "ready" in index("status")
        with override_settings(AGENT_SESSIONS={"FULL_TEXT_SEARCH": "english"}):
            assert "another configuration" in index("status")
            index("create")
            assert "'english'" in words_index()
    finally:
        assert "dropped" in index("drop")
    assert words_index() == ""
    assert "The index does not exist." in index("drop")
    assert "absent" in index("status")


@on_postgresql
@pytest.mark.django_db(transaction=True)
def test_an_index_that_somebody_is_making_is_left_to_them(say):
    say("one", "the quick brown fox")
    try:
        with transaction.atomic():
            # Whoever makes an index concurrently waits for transactions that have written.
            Session.objects.update(title="x")
            SessionMessage.objects.update(role="user")
            first = start("tests.queries.search_process", "create")
            while "being created" not in ended(start("tests.queries.search_process", "status"))[0]:
                time.sleep(0.05)
            for action in ("create", "drop"):
                out, err, status = ended(start("tests.queries.search_process", action))
                assert (out, status) == ("", 1)
                assert err.startswith("CommandError: another process is creating the index: wait")
                assert err.count("\n") == 1
        assert ended(first) == ("The index was created.\n", "", 0)
        with FULL_TEXT:
            assert "ready" in index("status")
    finally:
        index("drop")


@on_postgresql
@pytest.mark.django_db(transaction=True)
def test_what_postgresql_gives_up_is_told_with_what_to_do(say):
    with transaction.atomic():
        SessionMessage.objects.update(role="user")
        out, err, status = ended(start("tests.queries.search_process", "create", "--hurry"))

    try:
        assert (out, status) == ("", 1)
        assert err.startswith("CommandError: PostgreSQL failed (canceling statement due to ")
        assert "run the command again" in err
        assert err.count("\n") == 1
        assert "it will be replaced" in ended(start("tests.queries.search_process", "create"))[0]
    finally:
        index("drop")


def ended(process: Process) -> tuple[str, str, int | None]:
    out, err = process.communicate(timeout=60)
    return out, err, process.returncode


@on_postgresql
@pytest.mark.django_db(transaction=True)
def test_a_search_uses_the_index(say):
    with FULL_TEXT:
        index("create")
        try:
            say("one", "the quick brown fox")
            with CaptureQueriesContext(connection) as captured:
                assert found("fox") == {"one"}
            sql = next(q["sql"] for q in captured if "to_tsvector" in q["sql"])
            with connection.cursor() as cursor:
                cursor.execute("SET enable_seqscan = off")
                cursor.execute("SET enable_indexscan = off")
                cursor.execute("EXPLAIN " + sql.replace("%", "%%"))
                plan = "\n".join(row[0] for row in cursor.fetchall())
                cursor.execute("RESET enable_seqscan")
                cursor.execute("RESET enable_indexscan")
            assert search.WORDS_INDEX in plan
        finally:
            index("drop")


@on_postgresql
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("action", ["create", "status"])
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("en", "the database 'default' has no such text search configuration. Available: .*simp"),
        ("public.english", "no such text search configuration"),
        ("english'", "must name a text search configuration"),
    ],
)
def test_an_index_that_cannot_be_made_takes_no_other_ones_place(action, name, message):
    with FULL_TEXT:
        index("create")
    try:
        with (
            override_settings(AGENT_SESSIONS={"FULL_TEXT_SEARCH": name}),
            pytest.raises(CommandError, match=f"FULL_TEXT_SEARCH.*{message}"),
        ):
            index(action)
        assert "'simple'" in words_index()
    finally:
        with override_settings(AGENT_SESSIONS={"FULL_TEXT_SEARCH": name}):
            assert "dropped" in index("drop")


@on_postgresql
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", ["English", "pg_catalog.english", "PG_CATALOG.English"])
def test_an_index_is_known_however_its_configuration_is_spelled(say, name):
    with override_settings(AGENT_SESSIONS={"FULL_TEXT_SEARCH": name}):
        assert told_by_check() == ""
        try:
            assert "was created" in index("create")
            assert "ready" in index("status")
            assert "already exists" in index("create")
            say("one", "several invoices")
            assert found("invoice") == {"one"}
        finally:
            index("drop")


@on_postgresql
@pytest.mark.parametrize("name", ["en", "klingon", "public.english"])
def test_a_configuration_that_the_database_does_not_have_is_told_by_its_check(db, name):
    with override_settings(AGENT_SESSIONS={"FULL_TEXT_SEARCH": name}):
        told = told_by_check()
        assert "agent_sessions.W008" in told
        assert f"AGENT_SESSIONS['FULL_TEXT_SEARCH'] is {name!r}" in told
        assert "english" in told
        assert "\nHINT" in told.replace("\n\t", "\n")


@on_postgresql
def test_a_configuration_of_the_projects_own_is_known_once_it_is_made(db):
    with override_settings(AGENT_SESSIONS={"FULL_TEXT_SEARCH": "klingon"}):
        assert "W008" in told_by_check()
        with connection.cursor() as cursor:
            cursor.execute("CREATE TEXT SEARCH CONFIGURATION klingon (COPY = simple)")
        assert told_by_check() == ""


@elsewhere
@override_settings(AGENT_SESSIONS={"FULL_TEXT_SEARCH": "klingon"})
def test_where_no_index_is_used_its_configuration_is_not_looked_for(db):
    assert "W008" not in told_by_check()


@on_postgresql
def test_without_the_setting_no_index_is_made(db):
    with pytest.raises(CommandError, match="FULL_TEXT_SEARCH"):
        index("create")


@elsewhere
@FULL_TEXT
def test_where_there_is_no_such_index_the_command_says_so_and_searches_go_on(say):
    say("one", "zebras")

    for action in ("create", "drop", "status"):
        with pytest.raises(CommandError, match="not PostgreSQL"):
            index(action)
    assert found("ebra") == {"one"}


@FULL_TEXT
def test_a_setting_without_effect_is_a_warning():
    found_ids = [problem.id for problem in check_storage(None)]

    assert ("agent_sessions.W003" in found_ids) == (connection.vendor != "postgresql")


def test_without_the_setting_there_is_no_warning():
    assert "agent_sessions.W003" not in [problem.id for problem in check_storage(None)]
