"""The SDK's own sessions that wrap another one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agents import (
    RunContextWrapper,
    Runner,
    SessionSettings,
    TResponseInputItem,
)
from agents.extensions.memory import EncryptedSession
from openai import InternalServerError

from django_agent_sessions.adapters.openai_agents import DjangoSession
from django_agent_sessions.db.bridge import arun_orm
from django_agent_sessions.exceptions import ConfigurationError, SessionNotFoundError
from django_agent_sessions.models import Session
from django_agent_sessions.testing import columns_containing, files_containing

from .compact_api import SUMMARY, Server
from .scripted import call
from .team import assistant, requests, stored, texts, user

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "plantedsecret"
KEY = "a key from the secret manager"


def encrypted(inner: Any = None, *, key: str = KEY) -> EncryptedSession:
    # Its annotation asks for the SDK's base class; what it calls is the protocol.
    wrapped: Any = inner or DjangoSession("s")
    return EncryptedSession("s", wrapped, encryption_key=key)


async def say(
    session: Any, text: str, *steps: Any, context: Any = None
) -> list[TResponseInputItem]:
    """Runs an agent and returns what its model was given at its last call."""
    agent = assistant(*steps)
    await Runner.run(agent, text, session=session, context=context)
    return requests(agent)[-1]


class TestEncrypted:
    async def test_a_conversation_goes_on_and_none_of_it_is_readable(self):
        first = await say(encrypted(), f"I am {SECRET}", call("add", a=1, b=2), f"Hi {SECRET}.")
        assert len(first) == 3

        again = await say(encrypted(), "Who am I?")

        said = [f"I am {SECRET}", "call add", "output 3", f"Hi {SECRET}."]
        assert texts(again) == [*said, "Who am I?"]
        assert await arun_orm(columns_containing, SECRET) == []
        assert await arun_orm(files_containing, SECRET) == []
        assert {item["__enc__"] for item in await arun_orm(stored)} == {1}

    async def test_limits_are_forwarded(self):
        session = encrypted()
        await session.add_items([user(text) for text in "abcd"])
        assert texts(await session.get_items(2)) == ["c", "d"]
        assert await session.get_items(limit=0) == []

        session.session_settings = SessionSettings(limit=3)
        assert texts(await session.get_items()) == ["b", "c", "d"]
        assert isinstance(session.underlying_session.session_settings, SessionSettings)
        assert session.underlying_session.session_settings.limit == 3

    async def test_popping_and_clearing(self):
        session = encrypted()
        await session.add_items([user("a"), user("b"), user("c")])

        assert await session.pop_item() == user("c")
        assert texts(await encrypted().get_items()) == ["a", "b"]
        await session.clear_session()
        assert await session.get_items() == []
        assert await session.pop_item() is None

    async def test_another_key_reads_nothing_and_harms_nothing(self):
        await encrypted().add_items([user("a")])

        assert await encrypted(key="another").get_items() == []
        assert texts(await encrypted().get_items()) == ["a"]

    async def test_the_owner_comes_from_the_context_of_the_run(self, ada, bob):
        def owner(wrapper: RunContextWrapper[Any] | None) -> Any:
            assert wrapper is not None
            return wrapper.context

        def session() -> EncryptedSession:
            return encrypted(DjangoSession("s", owner=owner))

        await say(session(), "mine", context=ada)

        assert (await arun_orm(Session.objects.get)).owner_id == ada.pk
        assert texts(await say(session(), "again", context=ada))[0] == "mine"
        with pytest.raises(SessionNotFoundError):
            await say(session(), "intruding", context=bob)

    async def test_sixteen_writers_keep_all_envelopes(self):
        session = encrypted()
        await asyncio.gather(*(session.add_items([user(str(n)), user("-")]) for n in range(16)))

        said = texts(await session.get_items())
        assert sorted(said[::2], key=int) == [str(number) for number in range(16)]
        assert said[1::2] == ["-"] * 16


@pytest.fixture
def server() -> Server:
    return Server()


class Unlucky(DjangoSession):
    """Breaks off once at the write of a summary."""

    broke_off = False

    async def add_items(
        self,
        items: list[TResponseInputItem],
        *,
        wrapper: RunContextWrapper[Any] | None = None,
    ) -> None:
        if not self.broke_off and items[0].get("type") == "compaction":
            self.broke_off = True
            raise ConnectionError("the answer did not arrive")
        await super().add_items(items, wrapper=wrapper)


class TestCompacted:
    async def test_a_long_conversation_is_replaced_by_its_summary(self, server):
        session = server.session()
        for text in ("a", "b"):
            await say(session, text)
        assert server.requests == []
        await say(session, "c")

        (request,) = server.requests
        said = ["a", "You said: a", "b", "You said: b", "c", "You said: c"]
        assert texts(request["input"]) == said
        assert await arun_orm(stored) == [SUMMARY]
        assert (await arun_orm(Session.objects.get)).message_count == 1
        # Another process goes on with the summary.
        given: Any = await say(server.session(), "d")
        assert (given[0], given[1]["content"]) == (SUMMARY, "d")
        assert len(await arun_orm(stored)) == 3

    async def test_an_api_that_fails_leaves_the_conversation(self, server):
        session = server.session(least=1)
        server.failing = True
        with pytest.raises(InternalServerError):
            await say(session, "a")

        assert texts(await arun_orm(stored)) == ["a", "You said: a"]

    async def test_a_summary_that_cannot_be_written_leaves_the_conversation(self, server):
        inner = Unlucky("s")
        with pytest.raises(ConnectionError):
            await say(server.session(inner, least=1), "a")

        assert inner.broke_off
        assert texts(await arun_orm(stored)) == ["a", "You said: a"]

    async def test_by_hand_all_is_replaced_whatever_the_limit(self, server):
        session = server.session(DjangoSession("s", session_settings={"limit": 2}), least=100)
        for text in ("a", "b", "c"):
            await say(session, text)
        await session.run_compaction({"force": True})

        assert await arun_orm(stored) == [SUMMARY]

    async def test_an_owner_is_kept(self, server, ada, bob):
        session = server.session(DjangoSession("s", owner=ada), least=1)
        await say(session, "a")

        assert await arun_orm(stored) == [SUMMARY]
        assert (await arun_orm(Session.objects.get)).owner_id == ada.pk
        with pytest.raises(SessionNotFoundError):
            await say(server.session(DjangoSession("s", owner=bob)), "b")

    async def test_it_hands_no_context_on_so_an_owner_from_it_is_refused(self, server, ada):
        """The compaction session takes no ``wrapper``, so that the SDK gives it none."""

        def owner(wrapper: RunContextWrapper[Any] | None) -> Any:
            return None if wrapper is None else wrapper.context

        with pytest.raises(ConfigurationError, match="without a run's context"):
            await say(server.session(DjangoSession("s", owner=owner)), "a", context=ada)
        assert not await arun_orm(Session.objects.exists)

    @pytest.mark.parametrize("outer", ["encrypted", "compacted"])
    async def test_both_wrap_each_other(self, server, outer):
        def session() -> Any:
            if outer == "encrypted":
                return encrypted(server.session(least=1))
            return server.session(encrypted(), least=1)

        await say(session(), f"I am {SECRET}")
        assert len(server.requests) == 1
        assert len(await arun_orm(stored)) == 1
        assert (await arun_orm(stored))[0]["__enc__"] == 1
        assert await session().get_items() == [SUMMARY]
        assert await arun_orm(columns_containing, SECRET) == []
