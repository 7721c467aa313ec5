"""What an agent's session costs, and that a running event loop does not wait for it."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from django.db import connection
from strands.types.content import Message

from django_agent_sessions.adapters.strands import DjangoSessionManager
from django_agent_sessions.models import SessionMessage

from .agents import build, manager_of, stored, texts
from .scripted import Redact, call
from .traffic import Traffic, watched

pytestmark = pytest.mark.django_db(transaction=True)


def verbs(traffic: Traffic) -> list[str]:
    return [sql.split()[0] for sql in traffic.taken()]


class TestCounts:
    def test_a_turn_is_one_statement_a_message_and_one_at_its_end(self):
        agent = build("Hello.", "Fine.")
        agent("Hi")
        with watched() as traffic:
            agent("How are you?")

            assert verbs(traffic) == ["INSERT", "INSERT", "UPDATE"]

    def test_a_changed_state_is_one_statement_more(self):
        agent = build("Hello.", call("add", a=1, b=2), "Three.")
        agent("Hi")
        with watched() as traffic:
            agent("1 + 2?")

            assert sorted(verbs(traffic)) == ["INSERT"] * 4 + ["UPDATE"] * 2

    def test_an_unchanged_state_is_none(self):
        agent = build("Hello.")
        agent("Hi")
        with watched() as traffic:
            manager_of(agent).sync_agent(agent)

            assert verbs(traffic) == []

    def test_messages_an_agent_is_built_with_are_written_together(self):
        seeds: list[Message] = [
            {"role": "user", "content": [{"text": str(number)}]} for number in range(50)
        ]
        with watched() as traffic:
            build(messages=seeds)

            # The session, the agent, and the messages, of which SQLite's first has its own.
            written = [verb for verb in verbs(traffic) if verb != "SELECT"]
            assert written == ["INSERT"] * (4 if connection.vendor == "sqlite" else 3)
        assert len(stored()) == 50

    def test_a_redaction_does_not_read_the_conversation(self):
        agent = build("Hello.", Redact("[gone]"))
        agent("Hi")
        with watched() as traffic:
            agent("secret")

            reading = [sql for sql in traffic.taken() if sql.startswith("SELECT")]
            messages = [sql for sql in reading if SessionMessage._meta.db_table in sql]
            # One, or by its key.
            assert all(sql.endswith("LIMIT 1") or " IN (" in sql for sql in messages), messages


class TestLoadedAhead:
    def test_building_the_agent_asks_nothing(self):
        build("Hello.")("Hi")

        async def main() -> None:
            with watched() as traffic:
                manager = await DjangoSessionManager.load("s")
                assert verbs(traffic) == ["SELECT", "SELECT"]
                agent = build("Fine.", session_manager=manager)
                assert traffic.taken() == []
                assert texts(agent.messages) == ["Hi", "Hello."]
                await agent.invoke_async("How are you?")
                assert verbs(traffic) == ["INSERT", "INSERT", "UPDATE"]

        asyncio.run(main())

        assert texts(stored()) == ["Hi", "Hello.", "How are you?", "Fine."]

    def test_building_a_new_agent_asks_nothing_either(self):
        seed: Message = {"role": "user", "content": [{"text": "seed"}]}

        async def main() -> None:
            manager = await DjangoSessionManager.load("s")
            with watched() as traffic:
                agent = build("Hello.", session_manager=manager, messages=[seed], state={"a": 1})
                assert traffic.taken() == []
            await agent.invoke_async("Hi")

        asyncio.run(main())

        assert texts(stored()) == ["seed", "Hi", "Hello."]
        assert build().state.get() == {"a": 1}

    def test_several_agents_of_a_session(self):
        for agent_id in ("one", "two"):
            build(f"I am {agent_id}.", agent_id=agent_id)("Who?")

        async def main() -> list[list[str]]:
            manager = await DjangoSessionManager.load("s")
            with watched() as traffic:
                agents = [build(session_manager=manager, agent_id=i) for i in ("one", "two")]
                assert traffic.taken() == []
            return [texts(agent.messages) for agent in agents]

        assert asyncio.run(main()) == [["Who?", "I am one."], ["Who?", "I am two."]]


class TestTheLoop:
    """Each statement takes long; the loop must go on meanwhile."""

    DELAY = 0.15

    async def longest_gap(self, work) -> float:
        gaps: list[float] = []
        done = asyncio.Event()

        async def tick() -> None:
            last = time.perf_counter()
            while not done.is_set():
                await asyncio.sleep(0.005)
                now = time.perf_counter()
                gaps.append(now - last)
                last = now

        ticking = asyncio.create_task(tick())
        await work()
        done.set()
        await ticking
        return max(gaps)

    def test_an_invocation_does_not_block_it(self):
        async def main() -> float:
            agent = build(call("add", a=1, b=2), "Three.")
            agent.state.set("mood", "good")
            with watched() as traffic:
                traffic.delay = self.DELAY
                gap = await self.longest_gap(lambda: agent.invoke_async("1 + 2?"))
                assert len(traffic.statements) >= 6
                assert threading.get_ident() not in traffic.threads
                return gap

        assert asyncio.run(main()) < self.DELAY

    def test_loading_does_not_block_it(self):
        build("Hello.")("Hi")

        async def load() -> None:
            build(session_manager=await DjangoSessionManager.load("s"))

        async def main() -> float:
            with watched() as traffic:
                traffic.delay = self.DELAY
                gap = await self.longest_gap(load)
                assert len(traffic.statements) == 2
                return gap

        assert asyncio.run(main()) < self.DELAY
