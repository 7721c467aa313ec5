"""Agents in several processes on one conversation, which are killed or interleave."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from django.db import connections

from benchmarks.chaos import group_kills
from django_agent_sessions.models import SessionMessage
from tests.processes import Process, ready, start

from .chats import Call
from .writer import lookup

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process]

WRITER = "tests.contexts.writer"
KILLS = 20


def tell(process: Process, line: str) -> None:
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def hear(process: Process) -> str:
    line = process.stdout.readline()
    assert line, process.communicate()[1]
    return line.strip()


def end(process: Process) -> None:
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err


def stored(session_id: str) -> list[Any]:
    """The conversation's payloads, whose positions are dense."""
    found = SessionMessage.objects.filter(session__session_id=session_id).order_by("message_id")
    assert [message.message_id for message in found] == list(range(len(found)))
    return [message.message for message in found]


def texts(payloads: list[Any]) -> Counter[str]:
    """Counts the questions, answers and tool results of a conversation."""
    found: Counter[str] = Counter()
    for payload in payloads:
        content = payload.get("content", payload.get("output"))
        blocks: list[Any] = [{"text": content}] if isinstance(content, str) else content or []
        for block in blocks:
            inner = block["toolResult"]["content"][0] if "toolResult" in block else block
            if "text" in inner:
                found[inner["text"]] += 1
    return found


def calls(payloads: list[Any]) -> tuple[list[str], list[str]]:
    """The ids of a conversation's tool calls and of their results, in order."""
    asked, answered = [], []
    for payload in payloads:
        if payload.get("type") == "function_call":
            asked.append(payload["call_id"])
        elif payload.get("type") == "function_call_output":
            answered.append(payload["call_id"])
        content = payload.get("content")
        for block in content if isinstance(content, list) else ():
            if "toolUse" in block:
                asked.append(block["toolUse"]["toolUseId"])
            elif "toolResult" in block:
                answered.append(block["toolResult"]["toolUseId"])
    return asked, answered


def expected_of(turn: str) -> list[str]:
    return [f"question {turn}", f"found {turn}", f"answer {turn}"]


def test_what_was_acknowledged_outlives_twenty_kills(sdk):
    chance = random.Random(11)
    acknowledged: list[str] = []
    writer = start(WRITER, sdk.name, "s", 1000)
    ready([writer])
    for run in range(KILLS):
        tell(writer, str(run))
        child = int(hear(writer))
        tell(writer, "go")
        # At least one turn, and then until some moment of a later one.
        acknowledged.append(hear(writer))
        time.sleep(chance.uniform(0, 0.1))
        os.kill(child, signal.SIGKILL)
        while (line := hear(writer)) != "ended":
            assert line != "failed"
            acknowledged.append(line)
    end(writer)

    found = texts(stored("s"))
    assert len(acknowledged) >= KILLS
    for turn in acknowledged:
        assert [found[text] for text in expected_of(turn)] == [1, 1, 1]
    # Strands' own words, with which it answers a call that a kill left open.
    del found["Tool was interrupted."]
    assert [text for text, count in found.items() if count > 1] == []
    # And it goes on, on a conversation that is valid for a model.
    agent = sdk("s", steps=[Call("lookup", {"key": "last"}), "answer last"], tools=[lookup])
    assert agent.say("question last") == "answer last"
    found = texts(stored("s"))
    assert [found[text] for text in expected_of("last")] == [1, 1, 1]


def test_two_processes_that_interleave_tool_calls_keep_every_real_result(sdk):
    """200 appends each: a question, a call, its result and an answer in each of 50 turns."""
    sdk("s", tools=[lookup])
    connections.close_all()
    writers = [start(WRITER, sdk.name, "s", 50) for _ in range(2)]
    ready(writers)
    for number, writer in enumerate(writers):
        tell(writer, f"w{number}")
        assert hear(writer).isdigit()
    for writer in writers:
        tell(writer, "go")
    for writer in writers:
        while (line := hear(writer)) != "ended":
            assert line != "failed"
        end(writer)

    payloads = stored("s")
    assert len(payloads) == 400
    found = texts(payloads)
    for turn in [f"w{number}.{turn}" for number in range(2) for turn in range(50)]:
        assert [found[text] for text in expected_of(turn)] == [1, 1, 1]

    restored = memory_of(sdk, "s")
    asked, answered = calls(restored)
    assert len(asked) == 100
    assert sorted(asked) == sorted(answered)
    results = texts(restored)
    for turn in [f"w{number}.{turn}" for number in range(2) for turn in range(50)]:
        assert results[f"found {turn}"] == 1
    if sdk.name == "strands":
        # The model wants the results of a call right behind it.
        for message, following in pairwise(restored):
            asked, _ = calls([message])
            assert sorted(asked) == sorted(calls([following])[1])


def memory_of(sdk: Any, session_id: str) -> list[Any]:
    """What an agent that is built now has in memory, as its model would get it."""
    agent = sdk(session_id, tools=[lookup])
    if sdk.name == "strands":
        return list(agent.agent.messages)
    import asyncio

    return list(asyncio.run(agent.session.get_items()))


def test_kills_between_a_groups_commit_and_its_acknowledgements_lose_and_double_nothing():
    connections.close_all()
    killer = start("tests.contexts.group_writer", 4, 11)
    ready([killer])
    acknowledged = Counter(json.loads(hear(killer)))
    end(killer)

    assert acknowledged.total() > 0
    group_kills.check(acknowledged)
