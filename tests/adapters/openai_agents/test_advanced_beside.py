"""Beside the SDK's own: the same calls on both give the same answers, whatever the calls."""

from __future__ import annotations

import asyncio
import re
import tempfile
import uuid
from contextlib import ExitStack, closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from agents import Usage
from agents.extensions.memory import AdvancedSQLiteSession, advanced_sqlite_session
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from openai.types.responses.response_usage import InputTokensDetails, OutputTokensDetails

from django_agent_sessions.adapters.openai_agents import AdvancedDjangoSession, branch_session
from tests.strategies import exactly

pytestmark = pytest.mark.django_db(transaction=True)

TEXTS = ["a", "B and b", "100% é_é", 'say "\\"', "x" * 101, ""]
TERMS = ["a", "b", "B", "É", "é", "_", "%", '"', "\\", "user", ""]
PARTS = [
    {"type": "input_text", "text": "b"},
    {"type": "input_image", "image_url": "https://example.com/a.png"},
]
ITEMS: list[dict[str, Any]] = [
    {"role": "user", "content": PARTS},
    {"role": "user", "content": []},
    {"role": "user", "type": "message", "content": "a"},
    {"role": "assistant", "content": "yes"},
    {"role": "system", "content": "be kind"},
    {"type": "function_call", "name": "add", "call_id": "1", "arguments": "{}"},
    {"type": "function_call", "name": "add", "namespace": "math", "arguments": "{}"},
    {"type": "function_call", "name": "add", "namespace": "add", "arguments": "{}"},
    {"type": "function_call", "call_id": "1"},
    {"type": "function_call_output", "call_id": "1", "output": "3"},
    {"type": "mcp_call", "server_label": "files", "name": "read"},
    {"type": "mcp_call", "name": "read"},
    {"type": "mcp_approval_request", "server_label": "files", "name": ""},
    {"type": "tool_search_call"},
    {"type": "tool_search_output"},
    {"type": "shell_call", "name": "ignored"},
    {"type": "web_search_call"},
    {"type": "reasoning", "summary": []},
    {"__enc__": 1, "payload": "gAAA"},
    {},
]
NAMES = ["one", "two", "main", " ", "é/../é"]

users = st.sampled_from(TEXTS).map(lambda text: {"role": "user", "content": text})
items = st.lists(users | st.sampled_from(ITEMS), max_size=4)
turns = st.integers(-1, 4)
names = st.sampled_from(NAMES)
branches = st.none() | names
figures = st.integers(0, 1000)
usages = st.builds(
    Usage,
    requests=figures,
    input_tokens=figures,
    output_tokens=figures,
    total_tokens=figures,
    input_tokens_details=st.builds(
        InputTokensDetails, cached_tokens=figures, cache_write_tokens=figures
    ),
    output_tokens_details=st.builds(OutputTokensDetails, reasoning_tokens=figures),
)
results = usages.map(lambda usage: SimpleNamespace(context_wrapper=SimpleNamespace(usage=usage)))


def call(name: str, *arguments: Any) -> Any:
    return st.tuples(st.integers(0, 1), st.just(name), st.tuples(*arguments))


changes = st.one_of(
    call("add_items", items),
    call("add_items", items),
    call("pop_item"),
    call("store_run_usage", results),
    call("create_branch_from_turn", turns, st.none() | names),
    call("create_branch_from_content", st.sampled_from(TERMS), st.none() | names),
    call("switch_to_branch", names),
    call("delete_branch", names, st.booleans()),
)
rare = call("clear_session")
READS: list[tuple[str, tuple[Any, ...]]] = [
    ("get_items", ()),
    ("get_items", (2,)),
    ("list_branches", ()),
    ("get_conversation_turns", ()),
    ("get_conversation_by_turns", ()),
    ("get_tool_usage", ()),
    ("get_session_usage", ()),
    ("get_turn_usage", ()),
]
reads = st.one_of(
    call("get_items", st.sampled_from([None, -1, 0, 1, 3, 100]), branches),
    call("get_conversation_turns", branches),
    call("find_turns_by_content", st.sampled_from(TERMS), branches),
    call("get_conversation_by_turns", branches),
    call("get_tool_usage", branches),
    call("get_session_usage", branches),
    call("get_turn_usage", st.none() | turns, branches),
)
sequences = st.lists(st.one_of(changes, changes, changes, changes, reads, reads, rare), max_size=16)
USER, ANSWER = {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}
RESULT = SimpleNamespace(context_wrapper=SimpleNamespace(usage=Usage(requests=1, input_tokens=2)))


@pytest.fixture(autouse=True)
def _stopped_clock(monkeypatch):
    # Names that are made have the time in them.
    clock = SimpleNamespace(time=lambda: 1_800_000_000.5, sleep=None)
    monkeypatch.setattr(advanced_sqlite_session, "time", clock)
    monkeypatch.setattr(branch_session, "time", clock)


def comparable(found: Any) -> Any:
    """Leaves out when something was; that is another moment in each."""
    if isinstance(found, list) and found and isinstance(found[0], dict):
        times = [
            each.pop(key) for each in found for key in ("timestamp", "created_at") & each.keys()
        ]
        assert all(re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", time) for time in times)
        if "branch_id" in found[0]:
            # What was made in the same second is in no order there.
            found = sorted(found, key=lambda branch: branch["branch_id"])
    return exactly(found) if not isinstance(found, list) else [exactly(each) for each in found]


async def answer(session: Any, name: str, arguments: tuple[Any, ...]) -> Any:
    try:
        return comparable(await getattr(session, name)(*arguments))
    except ValueError as error:
        return f"ValueError: {error}"


@given(sequences)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(
    [
        # Of a branch that another object deletes while this one is on it.
        (0, "add_items", ([USER, ANSWER, USER],)),
        (0, "create_branch_from_turn", (2, "one")),
        (1, "delete_branch", ("one", False)),
        (0, "get_items", (None, None)),
        (0, "add_items", ([USER],)),
        (0, "store_run_usage", (RESULT,)),
        (1, "create_branch_from_turn", (2, "one")),
        (1, "switch_to_branch", ("one",)),
        (1, "clear_session", ()),
        (0, "add_items", ([ANSWER],)),
        (0, "store_run_usage", (RESULT,)),
        (0, "create_branch_from_turn", (0, None)),
        (0, "add_items", ([USER, USER],)),
        (0, "create_branch_from_turn", (2, "one")),
        (0, "create_branch_from_turn", (2, None)),
        (1, "create_branch_from_turn", (2, None)),
    ]
)
@example(
    [
        # Of turns that are popped, and come again.
        (0, "add_items", ([ANSWER],)),
        (0, "store_run_usage", (RESULT,)),
        (0, "add_items", ([USER, ANSWER],)),
        (0, "store_run_usage", (RESULT,)),
        (1, "pop_item", ()),
        (1, "get_session_usage", (None,)),
        (1, "pop_item", ()),
        (0, "get_session_usage", (None,)),
        (0, "add_items", ([USER],)),
        (0, "get_turn_usage", (1, None)),
        (0, "pop_item", ()),
        (0, "pop_item", ()),
        (0, "get_session_usage", (None,)),
        (0, "delete_branch", ("main", True)),
    ]
)
@example(
    [
        # Of a branch that went with all others while this object was on it.
        (0, "add_items", ([USER],)),
        (0, "create_branch_from_turn", (1, None)),
        (1, "clear_session", ()),
        (0, "create_branch_from_turn", (0, None)),
    ]
)
def test_the_same_calls_give_the_same_answers(calls):
    async def play() -> None:
        with ExitStack() as stack:
            directory = stack.enter_context(tempfile.TemporaryDirectory())
            theirs = [
                stack.enter_context(
                    closing(
                        AdvancedSQLiteSession(
                            session_id="s", db_path=Path(directory) / "s.db", create_tables=True
                        )
                    )
                )
                for _ in range(2)
            ]
            session_id = str(uuid.uuid4())
            ours = [AdvancedDjangoSession(session_id) for _ in range(2)]
            for number, name, arguments in calls:
                if name == "store_run_usage":
                    # An object of the SDK that has not looked since somebody cleared stores none.
                    await theirs[number].get_items()
                    await ours[number].get_items()
                expected = await answer(theirs[number], name, arguments)
                assert await answer(ours[number], name, arguments) == expected, name
            for number in range(2):
                for name, arguments in READS:
                    expected = await answer(theirs[number], name, arguments)
                    assert await answer(ours[number], name, arguments) == expected, name

    asyncio.run(play())
