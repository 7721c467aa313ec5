"""Conversations that are summarized: beside the SDK's own session, with failures, redacted."""

from __future__ import annotations

import asyncio
import signal
from datetime import timedelta
from typing import Any

import pytest
from agents import RunConfig, Runner
from agents.extensions.memory import EncryptedSession, SQLAlchemySession
from django.db import connections
from openai import InternalServerError

from django_agent_sessions.adapters.openai_agents import AdvancedDjangoSession, DjangoSession
from django_agent_sessions.db.bridge import arun_orm
from django_agent_sessions.exceptions import (
    ConfigurationError,
    SessionConflictError,
    StaleSessionError,
)
from django_agent_sessions.governance.legal_hold import hold
from django_agent_sessions.governance.redaction import Find, aredact
from django_agent_sessions.integrity import Check
from django_agent_sessions.models import Branch, Session, SessionMessage
from django_agent_sessions.store import SessionStore
from django_agent_sessions.testing import columns_containing, files_containing
from tests.processes import start

from .compact_api import SUMMARY, Server
from .scripted import call
from .team import assistant, requests, stored, texts, user

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "plantedsecret 0815"


@pytest.fixture
def server() -> Server:
    return Server()


def on_branch(number: int) -> list[Any]:
    rows = SessionMessage.objects.filter(branch=number).order_by("message_id")
    return list(rows.values_list("message", flat=True))


def on_main() -> list[Any]:
    return on_branch(0)


def findings() -> list[Any]:
    return [result.finding for result in Check(grace=timedelta()).run()]


def branches() -> list[tuple[int, str, int]]:
    return list(Branch.objects.order_by("number").values_list("number", "kind", "start"))


async def say(session: Any, text: str, *steps: Any, **options: Any) -> list[Any]:
    """Runs an agent; returns what its model was given at each call."""
    agent = assistant(*steps)
    await Runner.run(agent, text, session=session, **options)
    return requests(agent)


def plain(items: Any) -> list[Any]:
    """Items without the ids that the scripted model makes up."""
    return [
        {key: value for key, value in item.items() if key not in ("id", "call_id")}
        for item in items
    ]


TURNS: list[tuple[str, list[Any]]] = [
    ("a", ["A."]),
    ("1 + 2?", [("add", 1, 2), "Three."]),
    ("b", ["B."]),
    ("c", ["C."]),
    ("3 + 4?", [("add", 3, 4), ("add", 3, 4), "Seven."]),
    ("d", ["D."]),
    ("e", ["E."]),
    ("f", ["F."]),
    ("g", ["G."]),
]


def steps(planned: list[Any]) -> list[Any]:
    return [
        call(step[0], a=step[1], b=step[2]) if isinstance(step, tuple) else step for step in planned
    ]


# Each takes a second or two, for nine turns with each of the two.
@pytest.mark.parametrize(
    ("limit", "mode", "earlier"),
    [
        (None, "input", 0),
        (None, "auto", 7),
        (3, "auto", 0),
        (6, "input", 7),
        (6, "auto", 0),
        (10, "auto", 7),
    ],
)
async def test_turn_by_turn_it_is_what_the_sdk_does_with_sqlalchemy(
    server, tmp_path, limit, mode, earlier
):
    """The store for which the SDK replaces only what a model has seen."""
    theirs = Server()
    url = f"sqlite+aiosqlite:///{tmp_path}/oracle"
    settings: Any = {"limit": limit}
    inner = SQLAlchemySession.from_url("s", url=url, create_tables=True, session_settings=settings)
    oracle = theirs.session(inner)
    oracle.compaction_mode = mode
    ours = DjangoSession(
        "s", session_settings=settings, compaction=server.compaction(compaction_mode=mode)
    )
    # A conversation from before it was compacted.
    before = [user(f"old {number}") for number in range(earlier)]
    await inner.add_items(list(before))
    await DjangoSession("s").add_items(list(before))

    for text, planned in TURNS:
        expected = await say(oracle, text, *steps(planned))
        given = await say(ours, text, *steps(planned))
        assert [plain(items) for items in given] == [plain(items) for items in expected]
        assert plain(await arun_orm(on_main)) == plain(await inner.get_items(limit=1000))

    assert [plain(r.get("input", ())) for r in server.requests] == [
        plain(r.get("input", ())) for r in theirs.requests
    ]
    assert len(server.requests) == len(theirs.requests)
    assert server.requests or limit == 3 or earlier
    await inner.engine.dispose()


async def test_the_replaced_items_are_kept_on_a_branch_and_the_branch_can_be_the_main_one(server):
    session = DjangoSession("s", compaction=server.compaction())
    for text in "abc":
        await say(session, text)

    said = ["a", "You said: a", "b", "You said: b", "c", "You said: c"]
    assert await arun_orm(on_main) == [SUMMARY]
    assert texts(await arun_orm(on_branch, 1)) == said
    assert await arun_orm(branches) == [(1, "compacted", 0)]
    assert (await arun_orm(Session.objects.get)).message_count == 7
    assert await arun_orm(findings) == []
    # A turn later.
    assert (await say(session, "d"))[0][0] == SUMMARY

    await arun_orm(_switch, 1)
    assert texts((await say(DjangoSession("s"), "e"))[0]) == [*said, "e"]


def _switch(number: int) -> None:
    store = SessionStore()
    agent = store.agents.find(store.get("s"), "default")
    assert agent is not None
    store.branches.switch(agent, number)


async def test_nothing_is_kept_without_history_but_under_legal_hold(server):
    session = DjangoSession("s", compaction=server.compaction(least=1, keep_history=False))
    await say(session, f"I am {SECRET}", "Hi.")
    assert await arun_orm(on_main) == [SUMMARY]
    assert await arun_orm(columns_containing, SECRET) == []
    assert (await arun_orm(Session.objects.get)).message_count == 1

    await arun_orm(hold, (await arun_orm(Session.objects.get)).pk, reason="A request")
    await say(session, "b")
    assert await arun_orm(on_main) == [SUMMARY]
    assert await arun_orm(SessionMessage.objects.count) == 4


async def test_by_hand_the_whole_conversation_is_replaced_whatever_the_limit(server):
    session = DjangoSession(
        "s", session_settings={"limit": 2}, compaction=server.compaction(least=100)
    )
    for text in "abc":
        await say(session, text)
    await session.run_compaction()
    assert server.requests == []
    await session.run_compaction({"force": True})

    (request,) = server.requests
    assert texts(request["input"])[0] == "a"
    assert await arun_orm(on_main) == [SUMMARY]


@pytest.mark.parametrize("session_class", [DjangoSession, AdvancedDjangoSession])
async def test_a_session_that_is_not_compacted_tells_the_sdk_so(session_class):
    session = session_class("s")
    assert not hasattr(session, "run_compaction")
    with pytest.raises(AttributeError, match=r"compaction=Compaction\(\)"):
        _ = session.run_compaction


async def test_an_advanced_session_compacts_the_branch_that_it_is_on(server):
    session = AdvancedDjangoSession("s", compaction=server.compaction(least=2))
    await say(session, "a")
    await session.create_branch_from_turn(1, "other")
    for text in "bc":
        await say(session, text)

    assert await session.get_items() == [SUMMARY]
    assert texts(await session.get_items(branch_id="main")) == ["a", "You said: a"]
    assert texts(await arun_orm(on_branch, 2)) == ["b", "You said: b", "c", "You said: c"]
    assert (await say(session, "d"))[0][0] == SUMMARY
    assert await arun_orm(findings) == []


async def test_the_owner_comes_from_the_context_of_the_run(server, ada):
    def owner(wrapper: Any) -> Any:
        return None if wrapper is None else wrapper.context

    session = DjangoSession("s", owner=owner, compaction=server.compaction(least=1))
    await say(session, "a", context=ada)

    assert await arun_orm(on_main) == [SUMMARY]
    assert (await arun_orm(Session.objects.get)).owner_id == ada.pk


class TestWhatPreventsIt:
    async def test_an_api_that_fails_after_a_run_is_logged_and_by_hand_is_raised(
        self, server, caplog
    ):
        session = DjangoSession("s", compaction=server.compaction(least=1))
        server.failing = True
        await say(session, "a")
        assert "was not compacted and is unchanged: InternalServerError" in caplog.text
        with pytest.raises(InternalServerError):
            await session.run_compaction({"force": True})

        assert texts(await arun_orm(stored)) == ["a", "You said: a"]
        server.failing = False
        await say(session, "b")
        assert await arun_orm(on_main) == [SUMMARY]

    async def test_items_that_arrive_meanwhile_are_not_replaced(self, server, caplog):
        session = DjangoSession("s", compaction=server.compaction(least=1))
        server.meanwhile = lambda: asyncio.run(DjangoSession("s").add_items([user("new")]))
        await say(session, "a")

        assert texts(await arun_orm(stored)) == ["a", "You said: a", "new"]
        assert "messages were written or deleted" in caplog.text

    async def test_a_summary_of_what_was_redacted_meanwhile_is_not_written(self, server, caplog):
        session = DjangoSession("s", compaction=server.compaction(least=1))
        await DjangoSession("s").add_items([user(f"I am {SECRET}")])
        found = await arun_orm(SessionStore().get, "s")
        server.meanwhile = lambda: asyncio.run(aredact(found.id, Find(SECRET), reason="A request"))
        with pytest.raises(StaleSessionError):
            await session.run_compaction({"force": True})

        assert texts(await arun_orm(stored)) == ["I am [REDACTED]"]
        await session.run_compaction({"force": True})
        assert texts(server.requests[-1]["input"]) == ["I am [REDACTED]"]
        assert await arun_orm(on_main) == [SUMMARY]

    async def test_the_providers_memory_is_not_summarized_after_a_redaction(self, server):
        compaction = server.compaction(least=1, compaction_mode="auto")
        session = DjangoSession("s", compaction=compaction)
        plain_session = DjangoSession("s")
        await plain_session.add_items([user(f"I am {SECRET}")])
        found = await arun_orm(SessionStore().get, "s")

        class Redacting(DjangoSession):
            async def add_items(self, items: Any, *, wrapper: Any = None) -> None:
                await super().add_items(items, wrapper=wrapper)
                if items[-1].get("role") == "assistant":
                    await aredact(found.id, Find(SECRET), reason="A request")

        await say(Redacting("s", compaction=compaction), "a")
        assert "previous_response_id" not in server.requests[0]
        # The model has not seen the redacted version, so that it stays until the next run.
        assert texts(server.requests[0]["input"]) == ["a", "You said: a"]
        assert await arun_orm(on_main) == [user("I am [REDACTED]"), SUMMARY]
        await say(session, "b")
        assert "previous_response_id" in server.requests[1]

    async def test_a_call_that_waits_for_a_person(self, server):
        session = DjangoSession("s", compaction=server.compaction(least=1))
        agent = assistant([call("add", a=1, b=2), call("pay", amount=7)])
        result = await Runner.run(agent, "Pay", session=session)
        with pytest.raises(SessionConflictError, match="waits for its result"):
            await session.run_compaction({"force": True})
        assert server.requests == []

        state = result.to_state()
        for interruption in state.get_interruptions():
            state.approve(interruption)
        await Runner.run(agent, state, session=session)
        assert await arun_orm(on_main) == [SUMMARY]

    async def test_items_that_are_encrypted_outside_of_it(self, server, caplog):
        inner: Any = DjangoSession("s", compaction=server.compaction(least=1))
        session = EncryptedSession("s", inner, encryption_key="a key")
        await say(session, "a")
        assert "OpenAIResponsesCompactionSession" in caplog.text
        with pytest.raises(ConfigurationError):
            await inner.run_compaction({"force": True})

        assert server.requests == []
        assert texts(await session.get_items()) == ["a", "You said: a"]

    async def test_an_empty_conversation(self, server):
        session = DjangoSession("s", compaction=server.compaction())
        await session.run_compaction({"force": True})
        assert server.requests == []
        assert not await arun_orm(Session.objects.exists)


class TestRedaction:
    async def test_it_reaches_what_was_replaced_and_the_summary_of_it(self, server):
        session = DjangoSession("s", compaction=server.compaction(least=2))
        for text in ("a", "b", f"I am {SECRET}", "c"):
            await say(session, text)
        assert await arun_orm(on_main) == [SUMMARY]
        found = await arun_orm(SessionStore().get, "s")

        await aredact(found.id, Find(SECRET), reason="A request")

        (summary,) = await arun_orm(on_main)
        assert summary["content"] == "[REDACTED]"
        # The first summary was made before the text was said.
        kept = [row for number in (1, 2) for row in await arun_orm(on_branch, number)]
        assert SUMMARY in kept
        assert await arun_orm(columns_containing, "plantedsecret") == []
        assert await arun_orm(files_containing, "plantedsecret") == []
        assert (await say(session, "d"))[0][0] == summary

    async def test_a_redaction_of_what_is_not_summarized_leaves_the_summary(self, server):
        session = DjangoSession("s", compaction=server.compaction(least=2))
        for text in ("a", "b", f"I am {SECRET}"):
            await say(session, text)
        found = await arun_orm(SessionStore().get, "s")
        await aredact(found.id, Find(SECRET), reason="A request")

        assert (await arun_orm(on_main))[0] == SUMMARY

    async def test_it_reaches_the_summary_on_whichever_branch_the_two_are_now(self, server):
        session = DjangoSession("s", compaction=server.compaction(least=1))
        await say(session, f"I am {SECRET}", "Hi.")
        await arun_orm(_switch, 1)
        assert SUMMARY in await arun_orm(on_branch, 1) + await arun_orm(on_branch, 2)
        found = await arun_orm(SessionStore().get, "s")
        await aredact(found.id, Find(SECRET), reason="A request")

        assert SUMMARY not in await arun_orm(on_branch, 1) + await arun_orm(on_branch, 2)

    async def test_what_stays_before_the_summary_is_not_in_it(self, server):
        await DjangoSession("s").add_items([user(f"I am {SECRET}"), user("old")])
        session = DjangoSession("s", compaction=server.compaction(least=1))
        await say(session, "a", run_config=RunConfig(session_settings={"limit": 1}))
        assert (await arun_orm(on_main))[1:] == [SUMMARY]
        found = await arun_orm(SessionStore().get, "s")
        await aredact(found.id, Find(SECRET), reason="A request")

        assert await arun_orm(on_main) == [user("I am [REDACTED]"), SUMMARY]
        assert await arun_orm(columns_containing, "plantedsecret") == []


async def test_a_run_of_another_object_goes_on_beside_a_compaction(server):
    session = DjangoSession("s", compaction=server.compaction(least=1))
    other = DjangoSession("s")
    await other.add_items([user("first")])
    await say(session, "a")
    await other.add_items([user("later")])

    assert await arun_orm(on_main) == [SUMMARY, user("later")]
    assert await other.get_items() == [SUMMARY, user("later")]


async def test_with_a_limit_of_the_run_only_what_it_read_is_replaced(server):
    await DjangoSession("s").add_items([user(f"old {number}") for number in range(5)])
    session = DjangoSession("s", compaction=server.compaction(least=1))
    await say(session, "a", run_config=RunConfig(session_settings={"limit": 2}))

    assert texts((await arun_orm(on_main))[:3]) == ["old 0", "old 1", "old 2"]
    assert (await arun_orm(on_main))[3:] == [SUMMARY]


@pytest.mark.process
@pytest.mark.parametrize("keep", ["keep", "delete"])
def test_killed_at_any_statement_nothing_is_lost_and_nothing_is_doubled(keep):
    said = [user(text) for text in "abcd"]
    asyncio.run(DjangoSession("s").add_items(list(said)))
    killed = 0
    while True:
        connections.close_all()
        process = start("tests.adapters.openai_agents.compacting", killed + 1, keep)
        _, error = process.communicate(timeout=60)
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL, error
        killed += 1
        if stored() != said:
            break  # It was killed after the commit, while SQLite's log was emptied.
        assert Session.objects.get().message_count == 4
        assert Branch.objects.count() == 0

    assert killed > 5
    assert on_main() == [SUMMARY]
    assert on_branch(1) == (said if keep == "keep" else [])
    assert Session.objects.get().message_count == (5 if keep == "keep" else 1)
    assert findings() == []
