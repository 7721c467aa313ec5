"""An owner is a user, and who could own nothing never reaches the sessions of everybody."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, Group, User
from django.utils.functional import SimpleLazyObject
from strands.types.exceptions import StorageError

from django_agent_sessions.adapters.openai_agents import AdvancedDjangoSession, DjangoSession
from django_agent_sessions.adapters.strands import (
    DjangoSessionManager,
    DjangoSessionRepository,
    DjangoStorage,
)
from django_agent_sessions.exceptions import ConfigurationError, SessionNotFoundError
from django_agent_sessions.models import Session
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values import owners
from django_agent_sessions.values.owners import EVERYBODY, NOBODY, Reach, owner_key

pytestmark = pytest.mark.django_db(transaction=True)


class Profile:
    """Something of a user's, with a key of its own."""

    def __init__(self, pk: Any) -> None:
        self.pk = pk


class TokenUser:
    """The user that a token stands for, without a row that was read."""

    is_authenticated = True

    def __init__(self, pk: Any) -> None:
        self.pk = pk


class Keyless:
    """Somebody who is let in, and has nothing that a session could be owned by."""

    is_authenticated = True


NOT_OWNERS: dict[str, Callable[[User], Any]] = {
    "None": lambda ada: None,
    "the key of an anonymous user": lambda ada: AnonymousUser().pk,
    "the key of an unsaved user": lambda ada: User().pk,
    "an anonymous user": lambda ada: AnonymousUser(),
    "a lazy anonymous user": lambda ada: SimpleLazyObject(AnonymousUser),
    "an unsaved user": lambda ada: User(username="unsaved"),
    "a group of the same key": lambda ada: Group(pk=ada.pk),
    "a profile of the same key": lambda ada: Profile(ada.pk),
    "a token without a user": lambda ada: TokenUser(None),
    "somebody without a key": lambda ada: Keyless(),
    "True": lambda ada: True,
    "a user name": lambda ada: ada.username,
    "a number that is none": lambda ada: float("nan"),
    "a fraction": lambda ada: ada.pk + 0.5,
    "a float": lambda ada: float(ada.pk),
    "a decimal fraction": lambda ada: ada.pk + Decimal("0.5"),
    "a decimal that is none": lambda ada: Decimal("nan"),
    "bytes": lambda ada: str(ada.pk).encode(),
}

REACHES: dict[str, Callable[[Any], Any]] = {
    "SessionStore": lambda owner: SessionStore(owner=owner).find("private"),
    "a list": lambda owner: SessionStore(owner=owner).sessions.list(),
    "DjangoSessionManager": lambda owner: asyncio.run(
        DjangoSessionManager.load("private", owner=owner)
    ),
    "DjangoSessionRepository": lambda owner: DjangoSessionRepository(owner=owner).read_session(
        "private"
    ),
    "DjangoStorage": lambda owner: asyncio.run(DjangoStorage(owner=owner).list("")),
    "DjangoSession": lambda owner: asyncio.run(DjangoSession("private", owner=owner).get_items()),
    "AdvancedDjangoSession": lambda owner: asyncio.run(
        AdvancedDjangoSession("private", owner=owner).get_items()
    ),
}


@pytest.mark.parametrize("reach", REACHES.values(), ids=REACHES)
@pytest.mark.parametrize("other", NOT_OWNERS.values(), ids=NOT_OWNERS)
def test_what_can_own_nothing_reaches_nothing(ada, other, reach):
    SessionStore(owner=ada).open("private")

    with pytest.raises((ConfigurationError, StorageError), match="owner") as refused:
        reach(other(ada))
    assert "ada" not in str(refused.value)
    assert Session.objects.count() == 1


@pytest.mark.parametrize(
    "named",
    [
        lambda ada: ada,
        lambda ada: SimpleLazyObject(lambda: ada),
        lambda ada: ada.pk,
        lambda ada: str(ada.pk),
        lambda ada: TokenUser(str(ada.pk)),
        lambda ada: User(pk=ada.pk),
    ],
    ids=["user", "lazy user", "key", "key as text", "token's user", "user that was not read"],
)
def test_a_user_is_known_by_all_that_stands_for_one(ada, named):
    made = SessionStore(owner=ada).open("private")

    assert SessionStore(owner=named(ada)).get("private") == made
    assert SessionStore(owner=named(ada)).owner_id == ada.pk


def test_everybody_has_to_be_said_and_nobody_is_meant_where_nothing_is(ada):
    made = SessionStore(owner=ada).open("private")

    assert SessionStore(owner=EVERYBODY).get("private") == made
    for nobodys in (SessionStore(), SessionStore(owner=NOBODY)):
        assert nobodys.find("private") is None
        assert nobodys.reach == Reach(NOBODY)
        assert nobodys.owner_id is None
    assert (repr(EVERYBODY), repr(NOBODY)) == ("EVERYBODY", "NOBODY")


def test_a_store_can_reach_what_another_one_reaches(ada, bob):
    hers = SessionStore(owner=ada)
    made = hers.open("private")

    assert SessionStore(reach=hers.reach).get("private") == made
    assert SessionStore(reach=Reach(bob)).find("private") is None
    assert SessionStore(reach=Reach(EVERYBODY)).get("private") == made
    with pytest.raises(SessionNotFoundError, match="create=True"):
        SessionStore(reach=Reach(EVERYBODY)).open("missing")


def test_everybody_creates_only_if_told_to():
    everybodys = SessionStore(owner=EVERYBODY)

    with pytest.raises(SessionNotFoundError, match="create=True"):
        everybodys.open("new")
    with pytest.raises(ConfigurationError, match="create=True"):
        everybodys.create("new")
    assert not Session.objects.exists()

    made = SessionStore(owner=EVERYBODY, create=True).open("new")
    assert made.owner_id is None
    assert everybodys.open("new") == SessionStore().open("new") == made


def test_a_store_that_creates_nothing_finds_what_is_there(ada):
    made = SessionStore(owner=ada).open("private")
    store = SessionStore(owner=ada, create=False)

    assert store.open("private") == made
    with pytest.raises(SessionNotFoundError):
        store.open("new")
    with pytest.raises(ConfigurationError):
        store.create("new")
    assert Session.objects.count() == 1


def test_a_refusal_says_what_to_pass_instead():
    for refused in (None, AnonymousUser()):
        with pytest.raises(ConfigurationError) as error:
            SessionStore(owner=refused).find("s")
        for words in ("owner=user", "owner=NOBODY", "owner=EVERYBODY"):
            assert words in str(error.value)


def test_a_key_that_is_there_before_its_user_makes_no_owner(monkeypatch):
    """As of a user model with UUID keys: sessions have such."""
    monkeypatch.setattr(owners, "get_user_model", lambda: Session)
    saved = Session.objects.create(session_id="s")

    assert owner_key(saved) == owner_key(str(saved.pk)) == saved.pk
    for nobody in (Session(), "no-key"):
        with pytest.raises(ConfigurationError):
            owner_key(nobody)
