"""Branches, turns and usage under the SDK's Runner, with redactions, owners and transactions."""

from __future__ import annotations

import asyncio
import inspect
import logging
from types import SimpleNamespace
from typing import Any

import pytest
from agents import RunContextWrapper, Runner, SessionSettings, Usage
from agents.extensions.memory import AdvancedSQLiteSession
from agents.memory import Session as SessionProtocol
from asgiref.sync import async_to_sync
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from django_agent_sessions.adapters.openai_agents import AdvancedDjangoSession, DjangoSession
from django_agent_sessions.db.bridge import arun_orm
from django_agent_sessions.exceptions import (
    InvalidIdError,
    LegalHoldError,
    PayloadError,
    SessionNotFoundError,
)
from django_agent_sessions.governance import legal_hold
from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.models import Branch, Session, SessionMessage, TurnUsage
from django_agent_sessions.store import SessionStore
from django_agent_sessions.testing import columns_containing

from .scripted import call
from .team import assistant, requests, texts, user
from .test_statements import WRITTEN, statements

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "plantedsecret"


@pytest.fixture
def session():
    return AdvancedDjangoSession("s")


def result(**figures: Any) -> Any:
    return SimpleNamespace(context_wrapper=SimpleNamespace(usage=Usage(**figures)))


def test_it_is_a_session_of_the_sdk_with_the_methods_of_the_sdks_own(session):
    typed: SessionProtocol = session
    assert isinstance(typed, SessionProtocol)
    for name, theirs in inspect.getmembers(AdvancedSQLiteSession, inspect.iscoroutinefunction):
        if name.startswith("_"):
            continue
        parameters = inspect.signature(getattr(AdvancedDjangoSession, name)).parameters
        expected = inspect.signature(theirs).parameters
        # Not every release of the SDK has `turn_limit`.
        ours_alone = {"wrapper", "turn_limit"} - expected.keys()
        assert [
            (each.name, each.kind, each.default)
            for each in parameters.values()
            if each.name not in ours_alone
        ] == [(each.name, each.kind, each.default) for each in expected.values()], name


class TestRunner:
    async def test_branches_go_on_independently_and_usage_is_stored(self, session):
        first = await Runner.run(assistant("Oslo."), "Where to?", session=session)
        await session.store_run_usage(first)
        agent = assistant(call("add", a=1, b=2), "Three days.")
        second = await Runner.run(agent, "How long?", session=session)
        await session.store_run_usage(second)

        name = await session.create_branch_from_turn(2)
        again = assistant("By train.")
        third = await Runner.run(again, "How?", session=session)
        await session.store_run_usage(third)

        assert texts(requests(again)[0]) == ["Where to?", "Oslo.", "How?"]
        assert texts(await session.get_items()) == ["Where to?", "Oslo.", "How?", "By train."]
        assert texts(await session.get_items(branch_id="main"))[2:] == [
            "How long?",
            "call add",
            "output 3",
            "Three days.",
        ]
        assert await session.get_tool_usage("main") == [("add", 1, 2)]
        assert await session.get_tool_usage(name) == []
        used = await session.get_turn_usage(branch_id="main")
        assert [(turn["user_turn_number"], turn["requests"]) for turn in used] == [(1, 1), (2, 2)]
        assert (await session.get_turn_usage(2))["input_tokens"] == 10
        assert await session.get_session_usage() == {
            "requests": 4,
            "input_tokens": 40,
            "output_tokens": 20,
            "total_tokens": 60,
            "total_turns": 3,
        }
        assert (await SessionStore().sessions.ausage("s")).input_tokens == 40

        await session.switch_to_branch("main")
        last = assistant()
        await Runner.run(last, "And then?", session=AdvancedDjangoSession("s"))
        assert texts(requests(last)[0])[-2:] == ["Three days.", "And then?"]

    def test_a_streamed_and_a_sync_run_go_on_on_the_branch(self, session, thread_loop):
        async def branch() -> Any:
            await session.add_items([user("a"), user("b")])
            return await session.create_branch_from_content("B", "other")

        async def stream() -> None:
            streamed = Runner.run_streamed(assistant(), "streamed", session=session)
            async for _ in streamed.stream_events():
                pass
            await session.store_run_usage(streamed)

        assert thread_loop.run_until_complete(branch()) == "other"
        thread_loop.run_until_complete(stream())
        # The SDK leaves the loop behind as one that ends.
        for text in ("sync", "again"):
            Runner.run_sync(assistant(), text, session=session)

        async def read() -> Any:
            return [texts(await session.get_items()), await session.get_turn_usage()]

        items, usage = thread_loop.run_until_complete(read())
        assert items[::2] == ["a", "You said: streamed", "You said: sync", "You said: again"]
        assert [turn["user_turn_number"] for turn in usage] == [2]

    async def test_all_items_of_a_run_on_a_branch_have_its_run_id(self, session):
        await session.add_items([user("a")])
        await session.create_branch_from_turn(1, "other")
        await Runner.run(assistant(call("add", a=1, b=2), "3"), "1 + 2?", session=session)

        rows = SessionMessage.objects.filter(branch=1).values_list("run_id", flat=True)
        runs = await arun_orm(lambda: list(rows))
        assert len(runs) == 4
        assert None not in runs
        assert len(set(runs)) == 1


class TestOrder:
    async def test_what_is_begun_first_is_done_first(self, session):
        await session.add_items([user("a")])
        await asyncio.gather(
            session.add_items([user("b")]),
            session.store_run_usage(result(requests=2)),
            session.add_items([user("c")]),
            session.pop_item(),
            session.add_items([user("d")]),
            session.store_run_usage(result(requests=3)),
        )

        assert texts(await session.get_items()) == ["a", "b", "d"]
        used = await session.get_turn_usage()
        assert [(turn["user_turn_number"], turn["requests"]) for turn in used] == [(2, 2), (3, 3)]

    async def test_an_item_goes_to_the_branch_of_the_moment_when_it_was_given(self, session):
        await session.add_items([user("a"), user("b")])
        adding = asyncio.ensure_future(session.add_items([user("c")]))
        await asyncio.sleep(0)
        await session.create_branch_from_turn(2, "other")
        await adding

        assert texts(await session.get_items()) == ["a"]
        assert texts(await session.get_items(branch_id="main")) == ["a", "b", "c"]

    async def test_a_cancelled_wait_lets_the_others_pass(self, session):
        await session.add_items([user("a")])
        adding = [asyncio.ensure_future(session.add_items([user(text)])) for text in "bcd"]
        await asyncio.sleep(0)
        adding[1].cancel()
        await asyncio.gather(*adding, return_exceptions=True)
        await session.add_items([user("e")])

        found = texts(await session.get_items())
        assert [text for text in found if text != "c"] == ["a", "b", "d", "e"]


class TestRedaction:
    async def branched(self, session: AdvancedDjangoSession) -> None:
        await session.add_items([user(f"My code is {SECRET}"), user("b"), user("c")])
        await session.create_branch_from_turn(3, "one")
        await session.create_branch_from_turn(2, "two")

    @pytest.mark.parametrize("branch", ["main", "one", "two"])
    async def test_an_item_is_redacted_on_every_branch_that_has_it(self, session, branch):
        await self.branched(session)
        await session.switch_to_branch(branch)
        await session.redact_item(0, "[removed]")

        assert await arun_orm(columns_containing, SECRET) == []
        for name in ("main", "one", "two"):
            assert texts(await session.get_items(branch_id=name))[0] == "[removed]"
            assert (await session.get_conversation_turns(name))[0]["content"] == "[removed]"
        await session.create_branch_from_turn(1 if branch == "two" else 2, "three")
        assert await arun_orm(columns_containing, SECRET) == []

    async def test_a_redaction_of_the_session_reaches_all_branches(self, session):
        await self.branched(session)
        key = (await arun_orm(Session.objects.get)).pk
        await arun_orm(redact, key, Find(SECRET), reason="r")

        assert await arun_orm(columns_containing, SECRET) == []
        assert await session.find_turns_by_content(SECRET, "main") == []

    async def test_what_a_run_on_a_branch_adds_afterwards_is_redacted_too(self, session):
        await self.branched(session)
        known = await session.get_items()
        key = (await arun_orm(Session.objects.get)).pk
        await arun_orm(redact, key, Find(SECRET), reason="r")
        await session.add_items([*known, user(f"I said {SECRET}")])

        assert await arun_orm(columns_containing, SECRET) == []
        assert texts(await session.get_items())[1:] == [
            "My code is [REDACTED]",
            "I said [REDACTED]",
        ]


class TestOwners:
    async def test_a_session_of_somebody_else_is_not_found(self, session, ada, bob):
        await AdvancedDjangoSession("s", owner=ada).add_items([user("a")])
        stranger = AdvancedDjangoSession("s", owner=bob)
        for use in (
            stranger.list_branches(),
            stranger.get_items(branch_id="main"),
            stranger.create_branch_from_turn(1),
            stranger.switch_to_branch("main"),
            stranger.get_session_usage(),
        ):
            with pytest.raises(SessionNotFoundError):
                await use
        assert len(await AdvancedDjangoSession("s", owner=ada).list_branches()) == 1

    async def test_an_owner_is_found_by_the_context_of_the_run(self, ada):
        def owner(wrapper: Any) -> Any:
            return wrapper and wrapper.context

        session = AdvancedDjangoSession("s", owner=owner)
        done = await Runner.run(assistant(), "Hello", session=session, context=ada)
        await session.store_run_usage(done)

        wrapper = RunContextWrapper(context=ada)
        used: Any = await session.get_session_usage(wrapper=wrapper)
        assert used["requests"] == 1
        name = await session.create_branch_from_turn(1, wrapper=wrapper)
        await session.add_items([user("b")], wrapper=wrapper)
        assert [each["branch_id"] for each in await session.list_branches(wrapper=wrapper)] == [
            "main",
            name,
        ]


class TestSessions:
    async def test_settings_limit_what_is_read_of_a_branch(self):
        session = AdvancedDjangoSession("s", session_settings=SessionSettings(limit=2))
        await session.add_items([user(text) for text in "abcd"])
        await session.create_branch_from_turn(4, "other")

        assert texts(await session.get_items()) == ["b", "c"]
        assert texts(await session.get_items(branch_id="main")) == ["c", "d"]

    async def test_a_session_that_is_not_there_has_nothing_and_is_not_made(self, session):
        assert await session.list_branches() == []
        assert await session.get_conversation_turns() == []
        assert await session.get_conversation_by_turns() == {}
        assert await session.get_tool_usage() == []
        assert await session.get_session_usage() is None
        assert await session.get_turn_usage() == []
        assert await session.get_turn_usage(1) == {}
        await session.store_run_usage(result(requests=1))
        with pytest.raises(ValueError, match="does not contain a user message"):
            await session.create_branch_from_turn(1)
        with pytest.raises(ValueError, match="does not exist"):
            await session.delete_branch("other")
        assert not await arun_orm(Session.objects.exists)

    async def test_a_session_that_was_deleted_begins_anew_on_the_main_branch(self, session):
        await session.add_items([user("a")])
        await session.create_branch_from_turn(1, "other")
        await SessionStore().adelete("s")

        assert await session.get_items() == []
        await session.add_items([user("b")])
        assert [each["branch_id"] for each in await session.list_branches()] == ["main"]
        assert (await session.list_branches())[0]["is_current"]

    async def test_clearing_keeps_the_session_and_takes_all_branches(self, session):
        await session.add_items([user("a"), user("b")])
        await session.store_run_usage(result(requests=1))
        await session.create_branch_from_turn(2, "other")
        await session.clear_session()

        assert await session.list_branches() == []
        assert await session.get_session_usage() is None
        assert (await SessionStore().sessions.ausage("s")).messages == 0
        assert not await arun_orm(Branch.objects.exists)

    async def test_the_plain_class_sees_the_main_branch(self, session):
        await session.add_items([user("a"), user("b")])
        await session.create_branch_from_turn(2, "other")
        await session.add_items([user("c")])

        assert texts(await DjangoSession("s").get_items()) == ["a", "b"]

    async def test_a_branch_of_a_rewind_is_a_branch_like_others(self, session):
        await session.add_items([user("a"), user("b"), user("c")])
        store = SessionStore()
        agent = await store.agents.aopen(await store.aget("s"))
        await store.branches.arewind(agent, 0, name="left behind")

        assert [each["branch_id"] for each in await session.list_branches()] == [
            "main",
            "left behind",
        ]
        await session.switch_to_branch("left behind")
        await session.add_items([user("d")])
        assert texts(await session.get_items()) == ["a", "b", "c", "d"]
        assert texts(await session.get_items(branch_id="main")) == ["a"]

    @pytest.mark.parametrize("name", ["x" * 256, ".", "a\x00b"])
    async def test_a_name_that_cannot_be_one_makes_nothing(self, session, name):
        await session.add_items([user("a")])
        with pytest.raises(InvalidIdError):
            await session.create_branch_from_turn(1, name)
        assert await session.get_items() == [user("a")]

    async def test_a_damaged_item_keeps_its_turn(self, session):
        await session.add_items([user("a"), user("b"), user("c")])
        rows = SessionMessage.objects.filter(message_id=1)

        def damage() -> None:
            with connection.cursor() as cursor:
                table = connection.ops.quote_name(SessionMessage._meta.db_table)
                cursor.execute(f"UPDATE {table} SET message = '{{' WHERE message_id = 1")

        await arun_orm(damage)
        assert await arun_orm(rows.exists)
        turns = await session.get_conversation_turns()
        assert [(turn["turn"], turn["content"]) for turn in turns] == [(1, "a"), (3, "c")]
        assert await session.get_conversation_by_turns() == {
            number: [{"type": "user", "tool_name": None}] for number in (1, 2, 3)
        }
        await session.create_branch_from_turn(3, "other")
        assert texts(await session.get_items()) == ["a"]


class TestUsage:
    async def test_usage_that_is_stored_again_replaces_the_turns(self, session):
        await session.add_items([user("a")])
        for tokens in (10, 7):
            await session.store_run_usage(result(requests=1, input_tokens=tokens))

        assert (await session.get_session_usage())["input_tokens"] == 7
        assert (await SessionStore().sessions.ausage("s")).input_tokens == 7
        assert await arun_orm(TurnUsage.objects.count) == 1

    @pytest.mark.parametrize("figures", [{"input_tokens": 2**70}, {"requests": 1.5}])
    async def test_figures_that_cannot_be_are_reported_and_raise_nothing(
        self, session, caplog, figures
    ):
        await session.add_items([user("a")])
        usage = Usage()
        vars(usage).update(figures)
        with caplog.at_level(logging.WARNING):
            await session.store_run_usage(
                SimpleNamespace(context_wrapper=SimpleNamespace(usage=usage))
            )

        assert await session.get_session_usage() is None
        assert PayloadError.__name__ in caplog.text

    async def test_a_run_without_usage_stores_none(self, session):
        await session.add_items([user("a")])
        await session.store_run_usage(SimpleNamespace(context_wrapper=SimpleNamespace(usage=None)))
        assert await session.get_session_usage() is None


async def test_a_legal_hold_keeps_every_branch(session):
    await session.add_items([user("a"), user("b")])
    await session.create_branch_from_turn(2, "other")
    key = (await arun_orm(Session.objects.get)).pk
    await arun_orm(legal_hold.hold, key, reason="r", actor="test")

    for use in (session.pop_item(), session.clear_session(), session.delete_branch("other", True)):
        with pytest.raises(LegalHoldError):
            await use
    await session.switch_to_branch("other")
    assert texts(await session.get_items()) == ["a"]


class TestTransactions:
    def test_a_rollback_takes_branch_items_and_usage_away(self, session):
        asyncio.run(session.add_items([user("a"), user("b")]))

        async def use() -> None:
            await session.create_branch_from_turn(2, "other")
            await session.add_items([user("c")])
            await session.store_run_usage(result(requests=1))
            assert texts(await session.get_items()) == ["a", "c"]

        with transaction.atomic():
            asyncio.run(use())
            assert Branch.objects.count() == 1
            transaction.set_rollback(True)

        assert not Branch.objects.exists()
        assert not TurnUsage.objects.exists()
        assert SessionMessage.objects.count() == 2
        asyncio.run(session.switch_to_branch("main"))
        assert texts(asyncio.run(session.get_items())) == ["a", "b"]

    def test_a_sync_view_joins_by_async_to_sync(self, session):
        async_to_sync(session.add_items)([user("a")])
        with transaction.atomic():
            name = async_to_sync(session.create_branch_from_turn)(1)
            async_to_sync(session.add_items)([user("b")])
            assert SessionMessage.objects.filter(branch=1).count() == 1

        assert Branch.objects.get().name == name


class TestStatements:
    @pytest.fixture
    def known(self, session):
        asyncio.run(session.add_items([user(str(number)) for number in range(50)]))
        return session

    def test_the_main_branch_costs_what_the_plain_class_costs(self, known):
        assert statements(known.get_items()) == ["SELECT"]
        assert len(statements(known.add_items([user("c")]))) == WRITTEN

    def test_looking_takes_few_however_long_the_conversation_is(self, known):
        asyncio.run(known.create_branch_from_turn(40, "other"))

        assert len(statements(known.get_items())) == 2
        assert len(statements(known.add_items([user("c")]))) <= 6
        assert len(statements(known.list_branches())) == 3
        assert len(statements(known.get_conversation_turns())) == 2
        assert len(statements(known.get_conversation_by_turns())) == 2
        assert len(statements(known.get_turn_usage())) <= 4
        assert len(statements(known.get_session_usage())) <= 3

    def test_counting_reads_no_payload(self, known):
        with transaction.atomic():
            asyncio.run(known.create_branch_from_turn(40, "other"))
            with CaptureQueriesContext(connection) as captured:
                asyncio.run(known.list_branches())
        payload = connection.ops.quote_name("message")
        assert not [query for query in captured.captured_queries if payload in query["sql"]]

    def test_making_a_branch_takes_as_many_for_each_length(self, known):
        few = len(statements(known.create_branch_from_turn(2, "few")))
        asyncio.run(known.switch_to_branch("main"))
        many = len(statements(known.create_branch_from_turn(50, "many")))
        assert few == many


def make_main(name: str) -> None:
    store = SessionStore()
    agent = store.agents.find(store.get("s"), "default")
    assert agent is not None
    found = store.branches.find(agent, name)
    assert found is not None
    store.branches.switch(agent, found.number)


async def test_an_object_goes_on_where_its_branch_is_the_main_one_now(session):
    await session.add_items([user("a"), {"role": "assistant", "content": "b"}, user("c")])
    await session.create_branch_from_turn(2, "try")
    await session.add_items([user("x")])
    there = await session.get_items()

    await arun_orm(lambda: make_main("try"))
    assert await session.get_items() == there
    await session.add_items([user("y")])
    assert await AdvancedDjangoSession("s").get_items() == [*there, user("y")]


async def test_a_branch_that_became_the_main_one_is_found_by_its_name_and_gets_it_back(session):
    await session.add_items([user("a"), {"role": "assistant", "content": "b"}, user("c")])
    main = await session.get_items()
    await session.create_branch_from_turn(2, "try")
    await session.add_items([user("x")])
    there = await session.get_items()

    async def found(name: str) -> Any:
        branch = AdvancedDjangoSession("s")
        await branch.switch_to_branch(name)
        branches = await branch.list_branches()
        return await branch.get_items(), {
            found["branch_id"]: found["is_current"] for found in branches
        }

    await arun_orm(lambda: make_main("try"))
    await session.create_branch_from_turn(1, "gone")
    await session.add_items([user("y")])
    await session.delete_branch("gone", force=True)
    items, names = await found("try")
    former = next(name for name in names if name != "main")
    assert (items, names) == (there, {"main": True, former: False})
    await session.switch_to_branch("try")
    await session.add_items([user("z")])
    with pytest.raises(ValueError, match="does not exist"):
        await session.delete_branch("try")

    await arun_orm(lambda: make_main(former))
    assert await found("try") == ([*there, user("z")], {"main": False, "try": True})
    assert await found(former) == (main, {"main": True, "try": False})

    await arun_orm(lambda: make_main("try"))
    await session.clear_session()
    await session.add_items([user("new")])
    with pytest.raises(ValueError, match="does not exist"):
        await session.switch_to_branch("try")
