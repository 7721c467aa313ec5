"""The session by itself: the SDK's protocol, exact items, rows made when they are needed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import closing
from typing import Any

import pytest
from agents import RunContextWrapper, SessionSettings, SQLiteSession
from agents.memory import Session as SessionProtocol
from agents.memory import is_openai_responses_compaction_aware_session
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from django_agent_sessions.adapters.openai_agents import AdvancedDjangoSession, DjangoSession
from django_agent_sessions.content.dialects import OPENAI, STRANDS
from django_agent_sessions.db.bridge import arun_orm
from django_agent_sessions.exceptions import ConfigurationError, InvalidIdError, PayloadError
from django_agent_sessions.models import Session, SessionAgent, SessionMessage
from django_agent_sessions.store import SessionStore
from django_agent_sessions.testing import HOSTILE_IDS, INVALID_IDS
from django_agent_sessions.values.records import Usage
from tests.strategies import exactly, json_values

from .team import stored, texts, user

pytestmark = pytest.mark.django_db(transaction=True)

MOST = 2_147_483_647


@pytest.fixture
def session():
    return DjangoSession("s")


class TestProtocol:
    def test_it_is_a_session_of_the_sdk(self, session):
        typed: SessionProtocol = session
        assert isinstance(typed, SessionProtocol)
        assert typed.session_id == "s"
        assert not is_openai_responses_compaction_aware_session(session)

    def test_every_method_takes_the_context_of_the_run(self, session):
        wrapper = RunContextWrapper(context=None)

        async def use() -> list[Any]:
            await session.add_items([user("a"), user("b")], wrapper=wrapper)
            return [
                await session.get_items(wrapper=wrapper),
                await session.get_items(limit=1, wrapper=wrapper),
                await session.pop_item(wrapper=wrapper),
                await session.clear_session(wrapper=wrapper),
            ]

        found = asyncio.run(use())
        assert found == [[user("a"), user("b")], [user("b")], user("b"), None]

    def test_settings_are_given_or_set(self, session):
        assert session.session_settings == SessionSettings()
        session.session_settings = SessionSettings(limit=1)
        given = DjangoSession("s", session_settings={"limit": 2})
        assert given.session_settings == SessionSettings(limit=2)

        async def read() -> list[list[str]]:
            await given.add_items([user(text) for text in "abc"])
            session_one = texts(await session.get_items())
            session.session_settings = None
            return [session_one, texts(await given.get_items()), texts(await session.get_items())]

        assert asyncio.run(read()) == [["c"], ["b", "c"], ["a", "b", "c"]]

    def test_unknown_settings_are_refused(self):
        with pytest.raises(Exception, match="limits"):
            DjangoSession("s", session_settings={"limits": 2})

    @pytest.mark.parametrize("session_id", INVALID_IDS)
    def test_an_id_that_cannot_be_one_is_refused_at_once(self, session_id):
        with pytest.raises(InvalidIdError):
            DjangoSession(session_id)
        if session_id:
            with pytest.raises(InvalidIdError):
                DjangoSession("s", namespace=session_id)

    @pytest.mark.parametrize("session_id", HOSTILE_IDS)
    def test_making_one_asks_no_database(self, session_id, django_assert_num_queries):
        with django_assert_num_queries(0):
            assert DjangoSession(session_id, owner=3).session_id == session_id

    @pytest.mark.process
    def test_the_import_without_the_sdk_names_the_extra(self):
        program = (
            "import sys; sys.modules['agents'] = None\n"
            "from django_agent_sessions.exceptions import MissingDependencyError\n"
            "try: import django_agent_sessions.adapters.openai_agents\n"
            "except MissingDependencyError as error: print(error)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", "import django; django.setup()\n" + program],
            capture_output=True,
            text=True,
            check=True,
        )
        assert 'pip install "django-agent-sessions[openai]"' in done.stdout


class TestItems:
    @pytest.mark.parametrize(
        ("limit", "expected"),
        [
            (None, "abcde"),
            (2, "de"),
            (5, "abcde"),
            (6, "abcde"),
            (MOST, "abcde"),
            (0, ""),
            (-1, "abcde"),
        ],
    )
    async def test_a_limit_means_the_latest_in_order(self, session, limit, expected):
        await session.add_items([user(text) for text in "abcde"])

        assert "".join(texts(await session.get_items(limit))) == expected
        assert "".join(texts(await session.get_items(limit=limit))) == expected

    @pytest.mark.parametrize(("limit", "expected"), [(None, "cde"), (1, "e"), (4, "bcde"), (0, "")])
    async def test_an_explicit_limit_wins_over_the_settings(self, limit, expected):
        session = DjangoSession("s", session_settings={"limit": 3})
        await session.add_items([user(text) for text in "abcde"])

        assert "".join(texts(await session.get_items(limit))) == expected

    @pytest.mark.parametrize(
        "item",
        [
            {"z": 1, "a": {"y": 2, "b": 3}},
            {"__enc__": 1, "v": 1, "kid": "hkdf-v1", "payload": "gAAAA"},
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x" * 70_000},
            {"type": "something_of_tomorrow", "call_id": None},
            {},
        ],
        ids=["no role", "envelope", "reasoning", "unknown", "empty"],
    )
    async def test_any_object_is_an_item(self, session, item):
        await session.add_items([item, user("after")])

        found = await DjangoSession("s").get_items()
        assert [exactly(one) for one in found] == [exactly(item), exactly(user("after"))]
        assert await session.pop_item() == user("after")
        assert exactly(await session.pop_item()) == exactly(item)
        assert await session.pop_item() is None

    async def test_the_givers_list_stays_as_it_is(self, session):
        items = [user("a")]
        await session.add_items(items)
        items.append(user("b"))
        assert items == [user("a"), user("b")]
        assert await session.get_items() == [user("a")]

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        batch=st.lists(st.dictionaries(st.text(max_size=5), json_values, max_size=3), min_size=1)
    )
    def test_any_json_comes_back_exactly(self, db, batch):
        async def there_and_back() -> list[Any]:
            writer = DjangoSession("s")
            await writer.clear_session()
            await writer.add_items(batch)
            return [await DjangoSession("s").get_items(), await writer.get_items(limit=1)]

        everything, last = asyncio.run(there_and_back())
        assert exactly(everything) == exactly(batch)
        assert exactly(last) == exactly(batch[-1:])


class TestRows:
    async def test_reading_makes_nothing(self, session):
        assert await session.get_items() == []
        assert await session.get_items(limit=3) == []
        assert await session.pop_item() is None
        await session.clear_session()
        await session.add_items([])

        assert not await arun_orm(Session.objects.exists)

    async def test_the_first_item_makes_one_session_with_one_agent(self, ada):
        session = DjangoSession(
            "s", owner=ada, namespace="shop", title="Holiday plans", metadata={"channel": "web"}
        )
        await session.add_items([user("a")])

        row = await arun_orm(Session.objects.get)
        assert (row.session_id, row.namespace, row.owner_id) == ("s", "shop", ada.pk)
        assert (row.title, row.metadata) == ("Holiday plans", {"channel": "web"})
        agent = await arun_orm(SessionAgent.objects.get)
        assert (agent.agent_id, agent.dialect, agent.session_id) == ("default", OPENAI, row.pk)
        assert (await SessionStore(owner=ada, namespace="shop").sessions.ausage("s")) == Usage(1)

    async def test_a_title_is_that_of_the_first(self):
        await DjangoSession("s", title="First").add_items([user("a")])
        await DjangoSession("s", title="Second").add_items([user("b")])

        assert (await arun_orm(Session.objects.get)).title == "First"

    async def test_metadata_for_a_session_that_exists_is_told_once(self, caplog):
        await DjangoSession("s", metadata={"a": 1}).add_items([user("a")])
        await DjangoSession("s", metadata={"a": 1}).get_items()
        assert not caplog.messages

        other = DjangoSession("s", metadata={"a": "SECRET"})
        for _ in range(2):
            await other.get_items()
            await other.add_items([user("b")])

        row = await arun_orm(Session.objects.get)
        assert row.metadata == {"a": 1}
        assert [message.partition(",")[0] for message in caplog.messages] == [
            f"session {row.pk} exists"
        ]
        assert "SECRET" not in caplog.text

    async def test_clearing_keeps_the_session(self, session):
        await session.add_items([user("a"), user("b")])
        before = await arun_orm(Session.objects.get)
        await session.clear_session()

        assert await session.get_items() == []
        assert (await arun_orm(Session.objects.get)).pk == before.pk
        assert (await SessionStore().sessions.ausage("s")) == Usage(0)
        await session.add_items([user("c")])
        assert texts(await DjangoSession("s").get_items()) == ["c"]

    @pytest.mark.parametrize("bad", [object(), 10**5000], ids=["object", "integer"])
    async def test_an_item_that_is_no_json_makes_no_session(self, session, bad):
        with pytest.raises(PayloadError):
            await session.add_items([user("good"), {"role": "user", "content": bad}])
        assert not await arun_orm(Session.objects.exists)

        await session.add_items([user("a")])
        with pytest.raises(PayloadError):
            await session.add_items([user("good"), {"role": "user", "content": bad}])
        await session.add_items([user("b")])
        assert texts(await session.get_items()) == ["a", "b"]

    async def test_a_conversation_of_another_framework_is_not_mixed_up(self, session):
        store = SessionStore()
        agent = await store.agents.aopen(await store.aopen("s"), dialect=STRANDS)
        await store.aappend(agent, {"role": "user", "content": [{"text": "theirs"}]})

        for use in (session.get_items, session.pop_item, session.clear_session):
            with pytest.raises(ConfigurationError, match="in the format 'strands'"):
                await use()
        with pytest.raises(ConfigurationError, match="another session_id, namespace or agent_id"):
            await session.add_items([user("ours")])
        assert await arun_orm(SessionMessage.objects.count) == 1

    async def test_another_database_is_named(self):
        with pytest.raises(Exception, match="elsewhere"):
            await DjangoSession("s", using="elsewhere").get_items()


async def begin_anew(session_id: str, *said: str) -> None:
    """Deletes a session as another process would, and perhaps begins a new one of its name."""
    await SessionStore().adelete(session_id)
    if said:
        await DjangoSession(session_id).add_items([user(text) for text in said])


class TestDeletedMeanwhile:
    async def test_it_reads_as_empty(self, session):
        await session.add_items([user("a")])
        await begin_anew("s")

        assert await session.get_items() == []
        assert await session.pop_item() is None
        await session.clear_session()
        assert not await arun_orm(Session.objects.exists)

    async def test_it_begins_anew(self, session):
        await session.add_items([user("a")])
        await begin_anew("s")
        await session.add_items([user("b"), user("c")])

        assert texts(await session.get_items()) == ["b", "c"]
        assert texts(await arun_orm(stored)) == ["b", "c"]
        assert (await SessionStore().sessions.ausage("s")) == Usage(2)

    async def test_what_others_began_anew_is_found(self, session):
        await session.add_items([user("a")])
        await begin_anew("s", "b", "c")
        assert texts(await session.get_items()) == ["b", "c"]

        await begin_anew("s", "d")
        assert await session.pop_item() == user("d")

        await begin_anew("s", "e")
        await session.clear_session()
        assert await DjangoSession("s").get_items() == []

        await begin_anew("s", "f")
        await session.add_items([user("g")])
        assert texts(await DjangoSession("s").get_items()) == ["f", "g"]

    async def test_the_agent_alone_is_made_again(self, session):
        await session.add_items([user("a")])
        await arun_orm(SessionAgent.objects.all().delete)
        await session.add_items([user("b")])

        assert texts(await session.get_items()) == ["b"]
        assert await arun_orm(Session.objects.count) == 1

    async def test_another_id_may_be_given_to_the_object(self, session):
        await session.add_items([user("a")])
        session.session_id = "t"
        await session.add_items([user("b")])

        assert texts(await DjangoSession("s").get_items()) == ["a"]
        assert texts(await DjangoSession("t").get_items()) == ["b"]


@pytest.mark.parametrize("session_class", [DjangoSession, AdvancedDjangoSession])
def test_code_that_closes_its_session_goes_on_working(session_class):
    """As SQLiteSession requires it, and as those that are closed with ``await`` do."""
    with closing(session_class("s")) as session:
        asyncio.run(session.add_items([user("a")]))

    async def close() -> None:
        await session.close()

    asyncio.run(close())
    assert asyncio.run(session.get_items()) == [user("a")]


@pytest.mark.parametrize("session_class", [DjangoSession, AdvancedDjangoSession])
@pytest.mark.parametrize("limit", [None, -3, -1, 0, 1, 2, 9])
def test_a_limit_returns_what_it_returns_with_the_sdks_session(session_class, limit):
    items: Any = [user(str(number)) for number in range(5)]
    found = []
    for session in (SQLiteSession("s"), session_class("s")):
        with closing(session):
            asyncio.run(session.add_items(list(items)))
            given = asyncio.run(session.get_items(limit))
            session.session_settings = SessionSettings(limit=limit)
            found.append((given, asyncio.run(session.get_items())))

    assert found[0] == found[1]


@pytest.mark.parametrize("given", [{"limits": 3}, 3, "limit"])
def test_wrong_settings_raise_what_the_sdks_session_raises(given):
    for session_class in (SQLiteSession, DjangoSession):
        with pytest.raises(TypeError):
            session_class("s", session_settings=given)
