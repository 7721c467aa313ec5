from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import AnonymousUser
from django.db import transaction
from django.utils.functional import SimpleLazyObject

from django_agent_sessions.exceptions import (
    ConfigurationError,
    InvalidIdError,
    LegalHoldError,
    PayloadError,
    SessionConflictError,
    SessionNotFoundError,
)
from django_agent_sessions.governance.legal_hold import release
from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.models import Session, SessionAgent, SessionMessage, SessionMultiAgent
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.owners import EVERYBODY
from django_agent_sessions.values.records import Usage

pytestmark = pytest.mark.django_db


def test_opening_makes_a_session_once(store):
    made = store.open("s", title="Plans", metadata={"channel": "web"})
    found = store.open("s", title="ignored", metadata={"ignored": True})

    assert found == made
    assert (made.session_id, made.namespace, made.session_type) == ("s", "", "AGENT")
    assert (made.title, made.metadata) == ("Plans", {"channel": "web"})
    assert (made.owner_id, made.usage, made.redaction_epoch) == (None, Usage(), 0)
    assert store.get("s") == store.find("s") == made


def test_creating_a_session_twice_is_a_conflict_that_harms_no_transaction(store):
    with transaction.atomic():
        store.create("s", session_type="OTHER")
        with pytest.raises(SessionConflictError, match="session 's' already exists"):
            store.create("s")
        store.create("t")

    assert {row.session_id: row.session_type for row in Session.objects.all()} == {
        "s": "OTHER",
        "t": "AGENT",
    }


def test_times_of_a_session_can_be_given(store):
    created = datetime(2020, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    session = store.create("s", created_at=created, updated_at=created + timedelta(days=1))

    assert store.get("s") == session
    assert (session.created_at, session.last_activity_at) == (created, created)
    assert session.updated_at == created + timedelta(days=1)


def test_a_session_that_does_not_exist(store):
    assert store.find("missing") is None
    assert store.delete("missing") is False
    with pytest.raises(SessionNotFoundError, match="session 'missing' does not exist"):
        store.get("missing")
    with pytest.raises(SessionNotFoundError):
        store.sessions.usage("missing")


@pytest.mark.parametrize("method", ["open", "create", "find", "get", "delete", "sessions.usage"])
def test_every_way_to_a_session_refuses_an_id_that_cannot_be_one(
    store, method, django_assert_num_queries
):
    with django_assert_num_queries(0), pytest.raises(InvalidIdError):
        attrgetter(method)(store)("..")


def test_namespaces_are_apart():
    one, other = SessionStore(namespace="one"), SessionStore(namespace="other")
    session = one.open("s")

    assert other.find("s") is None
    assert other.open("s").id != session.id
    assert [found.id for found in one.sessions.list()] == [session.id]
    assert one.delete("s")
    assert other.find("s") is not None
    with pytest.raises(InvalidIdError, match="namespace"):
        SessionStore(namespace="a\nb")


def test_a_title_is_shown_so_it_is_cut_and_cleaned(store):
    assert store.open("a", title="x" * 300).title == "x" * 255
    with pytest.raises(PayloadError, match="a title is a str, not NoneType"):
        store.sessions.update("a", title=None)
    assert store.open("b", title="nul \x00, half \ud800, hare 🐇").title == (
        "nul \ufffd, half \ufffd, hare 🐇"
    )
    assert store.get("b").title == "nul \ufffd, half \ufffd, hare 🐇"


@pytest.mark.parametrize(
    "metadata",
    [{}, {"b": [1, 2.5, None, True], "a": {"🐇": "é"}}, {"text": "\\u0000 \\ud800 written out"}],
)
def test_metadata_is_json_that_can_be_filtered_on(store, metadata):
    store.open("s", metadata=metadata)

    assert store.get("s").metadata == metadata
    for key, value in metadata.items():
        assert Session.objects.filter(**{f"metadata__{key}": value}).exists()


def nested(depth: int) -> dict:
    return {"a": nested(depth - 1)} if depth else {}


@pytest.mark.parametrize(
    "metadata",
    [
        {"a": "plantedsecret \x00"},
        {"a": ["plantedsecret \ud800"]},
        {"plantedsecret \x00": 1},
        {"a": ("plantedsecret \x00",)},
        {"a": math.nan},
        {"a": math.inf},
        {"a": b"plantedsecret"},
        {"a": object()},
    ],
)
def test_metadata_that_the_database_would_refuse_is_refused_before_it(store, metadata):
    with transaction.atomic():
        with pytest.raises(PayloadError, match="the metadata") as refusal:
            store.open("s", metadata=metadata)
        store.open("t")

    assert "plantedsecret" not in str(refusal.value)
    assert [row.session_id for row in Session.objects.all()] == ["t"]


def test_metadata_that_python_cannot_follow_is_refused(store):
    deep: dict = {}
    for _ in range(100_000):
        deep = {"a": deep}
    with pytest.raises(PayloadError, match="the metadata is not JSON"):
        store.open("s", metadata=deep)


# --- owners ----------------------------------------------------------------------------------


def test_a_session_belongs_to_who_opened_it(ada, bob):
    mine = SessionStore(owner=ada).open("s")

    assert mine.owner_id == ada.pk
    assert SessionStore(owner=ada.pk).get("s") == mine
    assert SessionStore(owner=str(ada.pk)).get("s") == mine
    assert SessionStore(owner=EVERYBODY).get("s") == mine


def test_somebody_elses_session_and_nobodys_are_as_if_they_did_not_exist(store, ada, bob):
    SessionStore(owner=ada).open("hers")
    store.open("nobodys")
    his = SessionStore(owner=bob)
    his.open("his")

    for session_id in ("hers", "nobodys", "missing"):
        assert his.find(session_id) is None
        assert his.delete(session_id) is False
        for method in (his.get, his.sessions.usage):
            with pytest.raises(SessionNotFoundError) as refusal:
                method(session_id)
            assert str(refusal.value) == f"session {session_id!r} does not exist"
    for session_id in ("hers", "nobodys"):
        with pytest.raises(SessionNotFoundError) as refusal:
            his.open(session_id, title="mine now")
        assert str(refusal.value) == f"session {session_id!r} does not exist"
    assert [session.session_id for session in his.sessions.list()] == ["his"]
    everybodys = SessionStore(owner=EVERYBODY)
    assert everybodys.get("hers").owner_id == ada.pk
    assert everybodys.get("nobodys").owner_id is None
    assert everybodys.get("hers").title == everybodys.get("nobodys").title == ""


def test_creating_what_somebody_else_has_is_a_conflict(ada, bob):
    SessionStore(owner=ada).open("s")

    with pytest.raises(SessionConflictError):
        SessionStore(owner=bob).create("s")


def test_an_anonymous_or_unsaved_user_never_reaches_the_sessions_of_everybody(store, ada):
    store.open("nobodys")
    for nobody in (
        AnonymousUser(),
        type(ada)(username="unsaved"),
        SimpleLazyObject(AnonymousUser),
    ):
        for reach in (
            lambda s: s.open("nobodys"),
            lambda s: s.open("new"),
            lambda s: s.find("nobodys"),
            lambda s: s.sessions.list(),
            lambda s: s.delete("nobodys"),
        ):
            with pytest.raises(ConfigurationError, match="anonymous or unsaved"):
                reach(SessionStore(owner=nobody))
    assert store.find("new") is None
    assert store.find("nobodys") is not None


def test_a_lazy_user_is_read_at_the_first_use_and_not_before(ada):
    asked = []

    def user():
        asked.append(True)
        return ada

    store = SessionStore(owner=SimpleLazyObject(user))
    assert asked == []
    assert store.open("s").owner_id == ada.pk


@pytest.mark.django_db(transaction=True)
def test_an_owner_who_does_not_exist_owns_nothing(store):
    with pytest.raises(SessionNotFoundError, match=r"owner does not exist"):
        SessionStore(owner=987654).open("s")

    assert store.find("s") is None
    store.open("s")


# --- lists -----------------------------------------------------------------------------------


def test_sessions_are_listed_by_their_last_activity_page_by_page(store, ada):
    mine = SessionStore(owner=ada)
    for number in range(7):
        mine.open(f"s-{number}")
    store.open("nobodys")
    # Three at one moment: only the key keeps them apart.
    moment = datetime(2030, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)
    Session.objects.filter(session_id__in=["s-1", "s-3", "s-5"]).update(last_activity_at=moment)

    pages = []
    after = None
    while page := mine.sessions.list(limit=2, after=after):
        pages.append([session.session_id for session in page])
        after = page[-1]

    assert pages == [["s-5", "s-3"], ["s-1", "s-6"], ["s-4", "s-2"], ["s-0"]]
    assert [session.session_id for session in mine.sessions.list()] == [
        session_id for page in pages for session_id in page
    ]
    assert "nobodys" in [session.session_id for session in store.sessions.list()]


def test_a_turn_brings_a_session_to_the_top_and_moves_its_counters_once(store):
    session, agent = store.open("s"), store.agents.open(store.open("s"))
    store.open("t")
    store.append(agent, {"role": "user", "content": "Hi"}, count=False)
    store.append(agent, {"role": "assistant", "content": "Hello"}, count=False)
    assert store.sessions.usage("s") == Usage()

    store.touch(session.id, Usage(2, 10, 5))
    store.touch(session.id, Usage(0, 1, 2))

    assert store.sessions.usage("s") == Usage(2, 11, 7)
    assert [found.session_id for found in store.sessions.list()] == ["s", "t"]
    assert store.get("s").last_activity_at > session.last_activity_at


# --- deletion --------------------------------------------------------------------------------


def test_deleting_a_session_takes_all_that_belongs_to_it_and_nothing_else(store):
    for session_id in ("s", "t"):
        session = store.open(session_id)
        store.append_many(store.agents.open(session), [{"role": "user", "content": "x"}] * 3)
        store.multi_agents.create(session, "graph", {})

    assert store.delete("s") is True
    assert store.delete("s") is False

    assert [row.session_id for row in Session.objects.all()] == ["t"]
    counts = [m._base_manager.count() for m in (SessionAgent, SessionMessage, SessionMultiAgent)]
    assert counts == [1, 3, 1]


def test_a_session_under_legal_hold_stays(store, ada):
    session = SessionStore(owner=ada).open("s")
    everybodys = SessionStore(owner=EVERYBODY)
    Session.objects.filter(pk=session.id).update(legal_hold=True)

    with transaction.atomic():
        with pytest.raises(LegalHoldError, match="session 's' is under legal hold") as refusal:
            everybodys.delete("s")
        store.open("t")

    assert {held.pk for held in refusal.value.protected_objects} == {session.id}
    assert everybodys.get("s").legal_hold
    release(session.id, reason="closed")
    assert everybodys.delete("s")


def test_metadata_for_a_session_that_exists_is_not_stored_and_a_warning_says_so(store, caplog):
    session = store.open("s", metadata={"team": "blue", "tags": ["a"]})
    for known in (None, {}, {"team": "blue"}, {"tags": ("a",)}):
        store.open("s", metadata=known)
    assert not caplog.messages

    found = store.open("s", metadata={"team": "SECRET"})

    assert found.metadata == {"team": "blue", "tags": ["a"]}
    assert caplog.messages == [
        f"session {session.id} exists, so the metadata for a new session was not stored: change "
        "it with SessionStore.sessions.update"
    ]


def test_what_was_redacted_in_metadata_is_not_written_back_by_opening_the_session(store, caplog):
    metadata = {"phone": "call 4711"}
    session = store.open("s", metadata=metadata)
    redact(session.id, Find("4711"), reason="asked", actor="test")

    assert store.open("s", metadata=metadata).metadata == {"phone": "call [REDACTED]"}
    assert not caplog.messages


def test_metadata_that_is_masked_on_write_counts_as_stored(store, settings, caplog):
    settings.AGENT_SESSIONS = {"REDACT_ON_WRITE": ("email",)}
    metadata = {"from": "ada@example.org"}
    store.open("s", metadata=metadata)
    store.open("s", metadata=metadata)

    assert not caplog.messages


WRONG_CHANGES: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"name": "New"}, TypeError, "no argument name; its arguments are title, title_derived, meta"),
    ({"titel": "New", "title": "New", "data": {}}, TypeError, "no argument data, titel;"),
    ({"archived": "no"}, PayloadError, "archived is a bool, not str"),
    ({"archived": 1}, PayloadError, "archived is a bool, not int"),
    ({"title_derived": None, "title": "New"}, PayloadError, "title_derived is a bool"),
    ({"expires_at": "soon"}, PayloadError, "expires_at is a datetime or None, not str"),
    ({"expires_at": timedelta(days=3)}, PayloadError, "not timedelta"),
    ({"metadata": None}, PayloadError, "metadata is a dict, not NoneType"),
    ({"metadata": [("a", 1)]}, PayloadError, "metadata is a dict, not list"),
]


@pytest.mark.parametrize(("changes", "error", "match"), WRONG_CHANGES)
def test_a_change_that_cannot_be_made_is_refused(store, changes, error, match):
    store.create("s", title="Old", metadata={"a": 1})
    before = Session.objects.values().get()
    with pytest.raises(error, match=match):
        store.sessions.update("s", **changes)
    with pytest.raises(error, match=match):
        async_to_sync(store.sessions.aupdate)("s", **changes)
    assert Session.objects.values().get() == before


@pytest.mark.parametrize("metadata", [[], "", "team", [("a", 1)], 0, {1}])
def test_metadata_is_a_mapping(store, metadata):
    store.create("stored")
    for call in (store.open, store.aopen, store.create, store.acreate):
        names = ["new"] if "create" in call.__name__ else ["new", "stored"]
        for name in names:
            with pytest.raises(PayloadError, match="metadata is a dict, not"):
                (async_to_sync(call) if call.__name__[0] == "a" else call)(name, metadata=metadata)
    assert store.find("new") is None


def test_a_title_is_marked_as_derived_without_another_title(store):
    store.create("s", title="A trip")
    store.sessions.update("s", title_derived=True)
    assert Session.objects.values_list("title", "title_derived").get() == ("A trip", True)
    store.sessions.update("s", title="Mine")
    assert Session.objects.values_list("title", "title_derived").get() == ("Mine", False)


def test_unused_metadata_is_logged_unless_something_was_redacted(store, caplog):
    agent = store.agents.open(store.create("s", metadata={"a": 1}))
    store.append(agent, {"role": "user", "content": "hello 4111"})
    store.open("s", metadata={"q": 1})
    assert "the metadata for a new session was not stored" in caplog.text
    redact("s", "4111", reason="a ticket")
    caplog.clear()
    store.open("s", metadata={"q": 1})
    assert caplog.text == ""
