"""Whose session it is, and how that is told."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from agents import RunContextWrapper, Runner
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser, User
from django.utils.functional import SimpleLazyObject

from django_agent_sessions.adapters.openai_agents import DjangoSession
from django_agent_sessions.db.bridge import arun_orm
from django_agent_sessions.exceptions import ConfigurationError, SessionNotFoundError
from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.owners import EVERYBODY, NOBODY

from .scripted import call
from .team import assistant, requests, stored, texts, user

pytestmark = pytest.mark.django_db(transaction=True)


@dataclass
class Request:
    """What an application hands to its runs."""

    user: Any


def owner_of_run(wrapper: RunContextWrapper[Request] | None) -> Any:
    assert wrapper is not None
    return wrapper.context.user


def key_of_run(wrapper: RunContextWrapper[Request] | None) -> Any:
    return owner_of_run(wrapper).pk


async def awaited_owner_of_run(wrapper: RunContextWrapper[Request] | None) -> Any:
    """Asks the database, as an application does that has only a token."""
    return await arun_orm(User.objects.get, username=owner_of_run(wrapper).username)


async def say(session: Any, text: str, context: Any = None, *steps: Any) -> list[str]:
    """Runs an agent and returns what its model heard first."""
    agent = assistant(*steps)
    await Runner.run(agent, text, session=session, context=context)
    return texts(requests(agent)[0])


@pytest.mark.parametrize(
    "owner",
    [lambda ada: ada, lambda ada: ada.pk, lambda ada: SimpleLazyObject(lambda: ada)],
    ids=["user", "primary key", "lazy user"],
)
async def test_an_owner_may_be_a_user_or_a_primary_key(ada, owner):
    await say(DjangoSession("s", owner=owner(ada)), "a")
    heard = await say(DjangoSession("s", owner=ada), "b")

    assert heard == ["a", "You said: a", "b"]
    assert (await arun_orm(Session.objects.get)).owner_id == ada.pk


async def test_a_lazy_user_may_ask_the_database(ada):
    lazy = SimpleLazyObject(lambda: get_user_model().objects.get(username="ada"))
    await say(DjangoSession("s", owner=lazy), "a")

    assert (await arun_orm(Session.objects.get)).owner_id == ada.pk


@pytest.mark.parametrize("owner", [owner_of_run, key_of_run, awaited_owner_of_run])
async def test_an_owner_may_come_from_the_context_of_the_run(ada, bob, owner):
    session = DjangoSession("s", owner=owner)
    await say(session, "a", Request(ada), call("add", a=1, b=2), "Three.")

    assert await say(session, "b", Request(ada)) == ["a", "call add", "output 3", "Three.", "b"]
    # One object, and each run is its own user's.
    with pytest.raises(SessionNotFoundError):
        await say(session, "c", Request(bob))
    assert await say(session, "d", Request(ada)) != []
    assert (await arun_orm(Session.objects.get)).owner_id == ada.pk
    assert "c" not in texts(await arun_orm(stored))


async def test_runs_of_two_users_share_an_object_at_the_same_time(ada, bob):
    session = DjangoSession("adas", owner=owner_of_run)
    await say(session, "mine", Request(ada))

    outcomes = await asyncio.gather(
        *(say(session, str(n), Request(bob if n % 2 else ada)) for n in range(10)),
        return_exceptions=True,
    )

    for number, outcome in enumerate(outcomes):
        assert isinstance(outcome, SessionNotFoundError if number % 2 else list)
    assert len(await arun_orm(stored, "adas")) == 12


@pytest.mark.parametrize("known", [True, False], ids=["same object", "new object"])
async def test_strangers_neither_read_nor_write(ada, bob, known):
    await DjangoSession("s", owner=ada).add_items([user("private")])
    await DjangoSession("nobodys").add_items([user("internal")])

    for session_id in ("s", "nobodys"):
        session = DjangoSession(session_id, owner=bob)
        for use in (
            session.get_items,
            session.pop_item,
            session.clear_session,
            lambda session=session: session.add_items([user("intruding")]),
            lambda session=session: session.redact_item(0, "intruding"),
        ):
            if not known:
                session = DjangoSession(session_id, owner=bob)
            with pytest.raises(SessionNotFoundError) as refusal:
                await use()
            assert "private" not in str(refusal.value)
            assert "ada" not in str(refusal.value)

    assert await arun_orm(SessionMessage.objects.count) == 2
    assert texts(await DjangoSession("s", owner=ada).get_items()) == ["private"]


async def test_an_owner_that_is_left_out_reaches_no_users_session(ada):
    await DjangoSession("s", owner=ada).add_items([user("private")])

    session = DjangoSession("s")
    for use in (session.get_items, session.pop_item, lambda: session.add_items([user("b")])):
        with pytest.raises(SessionNotFoundError, match=r"owner=user, or owner=EVERYBODY"):
            await use()


async def test_everybody_reaches_each_session_and_makes_one_only_if_told_to(ada):
    await DjangoSession("s", owner=ada).add_items([user("private")])

    assert texts(await DjangoSession("s", owner=EVERYBODY).get_items()) == ["private"]
    with pytest.raises(SessionNotFoundError, match="create=True"):
        await DjangoSession("t", owner=EVERYBODY).add_items([user("lost")])
    await DjangoSession("t", owner=EVERYBODY, create=True).add_items([user("kept")])
    assert texts(await DjangoSession("t").get_items()) == ["kept"]


async def test_an_object_that_reached_everybodys_session_does_not_keep_it_for_nobody(ada):
    """A callable that answers otherwise each time: what one answer found, another does not get."""
    await DjangoSession("s", owner=ada).add_items([user("private")])
    answers = [EVERYBODY, NOBODY]
    session = DjangoSession("s", owner=lambda wrapper: answers.pop(0))

    assert texts(await session.get_items()) == ["private"]
    with pytest.raises(SessionNotFoundError):
        await session.get_items()


@pytest.mark.parametrize("other", [False, True], ids=["no agent", "another framework's agent"])
async def test_a_session_of_a_user_without_a_conversation_is_refused_too(ada, bob, other):
    store = SessionStore(owner=ada)
    session = await store.aopen("s")
    if other:
        await store.agents.aopen(session, "of strands", dialect="strands")

    for refused in (DjangoSession("s"), DjangoSession("s", owner=bob)):
        with pytest.raises(SessionNotFoundError):
            await refused.get_items()
    assert await DjangoSession("s", owner=ada).get_items() == []


async def test_a_name_that_a_stranger_took_after_a_deletion_is_the_strangers(ada, bob):
    mine = DjangoSession("s", owner=ada)
    await mine.add_items([user("a")])
    await arun_orm(Session.objects.all().delete)
    await DjangoSession("s", owner=bob).add_items([user("b")])

    with pytest.raises(SessionNotFoundError):
        await mine.get_items()
    with pytest.raises(SessionNotFoundError):
        await mine.add_items([user("c")])
    assert texts(await DjangoSession("s", owner=bob).get_items()) == ["b"]


async def test_somebody_who_is_not_logged_in_owns_nothing():
    session = DjangoSession("s", owner=AnonymousUser())

    for use in (session.get_items, lambda: session.add_items([user("a")])):
        with pytest.raises(ConfigurationError, match="anonymous"):
            await use()
    assert not await arun_orm(Session.objects.exists)


async def test_a_callable_that_names_nobody_does_not_mean_everybody(ada):
    await DjangoSession("s", owner=ada).add_items([user("private")])
    session = DjangoSession("s", owner=lambda wrapper: AnonymousUser().pk)

    with pytest.raises(ConfigurationError, match="returned None without a run's context"):
        await session.get_items()
    with pytest.raises(ConfigurationError, match="returned None: return a user"):
        await say(session, "a", Request(ada))


async def test_an_error_of_the_callable_is_the_callers(ada):
    def refuse(wrapper: RunContextWrapper[Any] | None) -> Any:
        raise PermissionError("not today")

    with pytest.raises(PermissionError, match="not today"):
        await say(DjangoSession("s", owner=refuse), "a")


async def test_an_owner_who_does_not_exist_is_told():
    with pytest.raises(SessionNotFoundError):
        await DjangoSession("s", owner=987654).add_items([user("a")])
    assert not await arun_orm(Session.objects.exists)
