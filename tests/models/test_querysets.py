"""The methods of ``Session.objects``: what they find, in one statement, and whom they refuse."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser
from django.utils import timezone
from django.utils.functional import SimpleLazyObject

from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.models import Session
from django_agent_sessions.store import SessionStore
from tests.encryption.conftest import encrypt  # noqa: F401 - a fixture

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada(django_user_model):
    return django_user_model.objects.create_user("ada")


def talk(owner, name, *texts, agent="default", dialect="openai", **options):
    store = SessionStore(owner=owner)
    session = store.open(name, **options)
    for number, text in enumerate(texts):
        content = [{"text": text}] if dialect == "strands" else text
        message = {"role": ("user", "assistant")[number % 2], "content": content}
        store.append(store.agents.open(session, agent, dialect=dialect), message)
    return session


def last_messages(user):
    rows: Any = Session.objects.owned_by(user).with_last_message().recent_first()
    return {row.session_id: (row.last_message_role, row.last_message_text) for row in rows}


def test_the_last_message_of_each_session_is_read_with_the_sessions(
    ada, django_user_model, django_assert_num_queries
):
    for number in range(5):
        talk(ada, f"s{number}", "Hello", f"Hi {number}")
    talk(ada, "strands", "Question", dialect="strands")
    talk(ada, "empty")
    talk(ada, "long", "x" * 600)
    talk(django_user_model.objects.create_user("eve"), "hers", "secret")

    with django_assert_num_queries(1):
        found = last_messages(ada)
    assert found == {
        **{f"s{number}": ("assistant", f"Hi {number}") for number in range(5)},
        "strands": ("user", "Question"),
        "empty": (None, None),
        "long": ("user", "x" * 500),
    }
    row: Any = Session.objects.with_last_message().get(session_id="s1")
    at = row.last_message_at
    assert timezone.now() - timedelta(minutes=5) < at <= timezone.now()


def test_the_last_message_is_of_whichever_agent_said_something_last(ada):
    talk(ada, "team", "Write", "Done", agent="writer")
    talk(ada, "team", "Judge", agent="critic")

    assert last_messages(ada) == {"team": ("user", "Judge")}


def test_a_redacted_last_message_is_redacted_here_too(ada):
    session = talk(ada, "s", "my number is 4711")
    redact(session.id, Find("4711"), reason="asked", actor=ada)

    assert last_messages(ada) == {"s": ("user", "my number is [REDACTED]")}


def test_an_encrypted_last_message_is_opened(ada, request):
    talk(ada, "before", "plain")
    request.getfixturevalue("encrypt")()
    talk(ada, "openai", "sealed item")
    talk(ada, "strands", "sealed message", dialect="strands")
    talk(ada, "empty")

    assert last_messages(ada) == {
        "before": ("user", "plain"),
        "openai": ("user", "sealed item"),
        "strands": ("user", "sealed message"),
        "empty": (None, None),
    }


def test_older_than_takes_an_age_or_a_time_of_the_last_activity(ada, django_assert_num_queries):
    now = timezone.now()
    for days in (1, 29, 31):
        moment = now - timedelta(days=days)
        Session.objects.create(session_id=str(days), owner=ada, last_activity_at=moment)

    with django_assert_num_queries(1):
        [found] = Session.objects.older_than(timedelta(days=30))
    assert found.session_id == "31"
    older = ada.owned_agent_sessions.older_than(now - timedelta(days=2))
    assert sorted(older.values_list("session_id", flat=True)) == ["29", "31"]


@pytest.mark.parametrize(
    ("age", "error"),
    [(timedelta(days=-30), ValueError), (30, TypeError), (None, TypeError), ("30", TypeError)],
)
def test_an_age_that_would_match_sessions_in_use_is_refused(ada, age, error):
    talk(ada, "s", "Hello")

    with pytest.raises(error, match="older_than"):
        Session.objects.older_than(age).delete()
    assert Session.objects.count() == 1


def test_with_errors_leaves_out_sessions_in_which_nothing_failed(ada):
    for name, errors in (("failed", 2), ("fine", 0)):
        Session.objects.create(
            session_id=name, owner=ada, error_count=errors, has_errors=errors > 0
        )

    [found] = ada.owned_agent_sessions.with_errors()
    assert (found.session_id, found.error_count) == ("failed", 2)


def test_not_held_leaves_out_what_cannot_be_deleted(ada):
    for name in ("held", "free"):
        Session.objects.create(session_id=name, owner=ada, legal_hold=name == "held")

    Session.objects.owned_by(ada).not_held().delete()

    assert [row.session_id for row in Session.objects.all()] == ["held"]


@pytest.mark.parametrize(
    "owner",
    [None, AnonymousUser(), SimpleLazyObject(AnonymousUser), False, True],
    ids=["none", "anonymous", "lazy anonymous", "false", "true"],
)
def test_an_owner_who_is_nobody_in_particular_matches_nothing(ada, owner):
    talk(ada, "hers", "Hello")
    SessionStore().open("nobodys")

    assert not Session.objects.owned_by(owner).exists()


VALUES = [
    "true",
    True,
    False,
    "false",
    None,
    "null",
    1,
    "1",
    1.5,
    ["a"],
    '["a"]',
    {"a": 1},
    '{"a": 1}',
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_metadata_is_found_by_a_value_of_the_same_type(ada, value):
    for number, each in enumerate(VALUES):
        talk(ada, f"{number}", metadata={"key": each})

    found = Session.objects.owned_by(ada).metadata(key=value).values_list("session_id", flat=True)
    same = [n for n, each in enumerate(VALUES) if repr(each) == repr(value)]
    assert [*found] == [f"{n}" for n in same]


@pytest.mark.parametrize("key", ["42", "0", "a.b", "a__b", "x-y z", "$", "a[0]", "", "é"])
def test_metadata_is_found_by_any_key(ada, key):
    talk(ada, "a", metadata={key: "gold"})
    talk(ada, "b", metadata={"other": "gold"})

    [found] = Session.objects.owned_by(ada).metadata(**{key: "gold"})
    assert found.session_id == "a"


@pytest.mark.parametrize("key", ['say "hi"', "back\\slash"])
def test_metadata_refuses_a_key_that_no_path_can_have(ada, key):
    with pytest.raises(ValueError, match="no key with a quotation mark"):
        Session.objects.owned_by(ada).metadata(**{key: "gold"})


def test_metadata_is_found_by_several_values_in_one_statement(ada, django_assert_num_queries):
    talk(ada, "a", metadata={"team": "blue", "level": 2})
    talk(ada, "b", metadata={"team": "blue", "level": 3})
    talk(ada, "c", metadata={"team": "bluegreen"})

    with django_assert_num_queries(1):
        [found] = Session.objects.owned_by(ada).metadata(team="blue", level=2)
    assert found.session_id == "a"
