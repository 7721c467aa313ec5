"""What is odd in OpenAI's items and messages is kept as unknown, beside what can be read."""

from __future__ import annotations

from typing import Any

import pytest

from django_agent_sessions.content.dialects import OPENAI, Part, get

from .examples import RESULT, UNKNOWN, said, text

ODD_BLOCKS: list[Any] = [
    {"type": "input_text", "text": 5},
    {"type": "output_text"},
    {"type": "refusal", "text": "wrong key"},
    {"type": "reasoning_text", "text": 1},
    {"type": "input_image"},
    {"type": "image_url", "image_url": {"url": 5}},
    {"type": "input_file", "filename": "a.pdf"},
    {"type": "file", "file": "a.pdf"},
    {"type": "input_audio", "input_audio": {"format": "wav"}},
    {"type": "input_audio", "input_audio": "wav"},
    {"type": "hologram", "data": "x"},
    {"type": ["input_text"], "text": "x"},
    {"text": "no type"},
    {},
    "bare",
    None,
]

ODD_ITEMS: list[Any] = [
    {"__enc__": 1, "v": 1, "kid": "hkdf-v1", "payload": "gAAAA"},
    {"type": "function_call", "arguments": "{}"},
    {"type": "function_call", "name": 5, "arguments": "{}"},
    {"type": "custom_tool_call", "input": "x"},
    {"type": "mcp_call", "arguments": "{}"},
    {"type": "brand_new_item", "role": "assistant", "content": "x"},
    {"type": 5, "role": "user", "content": "x"},
    {"type": ["message"], "role": "user", "content": "x"},
    {"type": "message", "role": "user"},
    {"role": "user"},
    {"content": "nobody's"},
    {},
    [],
    "text",
    b"bytes",
    5,
    None,
]


@pytest.mark.parametrize("block", ODD_BLOCKS, ids=repr)
def test_an_odd_block_is_kept_as_unknown_beside_its_neighbours(block):
    before, after = {"type": "input_text", "text": "a"}, {"type": "text", "text": "b"}
    message = said("user", before, block, after)
    assert get(OPENAI).parts(message) == (text("a"), Part(UNKNOWN, data=block), text("b"))
    assert get(OPENAI).summary(message).text == "a\nb"


@pytest.mark.parametrize("item", ODD_ITEMS, ids=repr)
def test_an_odd_item_is_one_unknown_part(item):
    assert get(OPENAI).parts(item) == (Part(UNKNOWN, data=item),)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"content": 5}, (Part(UNKNOWN, data=5),)),
        ({"content": "a", "refusal": 5}, (text("a"), Part(UNKNOWN, data={"refusal": 5}))),
        ({"content": "a", "audio": 5}, (text("a"), Part(UNKNOWN, data={"audio": 5}))),
        (
            {"content": "a", "reasoning_content": {"b": 1}},
            (Part(UNKNOWN, data={"reasoning_content": {"b": 1}}), text("a")),
        ),
        ({"tool_calls": {"id": 1}}, (Part(UNKNOWN, data={"tool_calls": {"id": 1}}),)),
        (
            {"tool_calls": [None, {"id": "c"}]},
            (Part(UNKNOWN, data=None), Part(UNKNOWN, data={"id": "c"})),
        ),
        ({"function_call": "weather"}, (Part(UNKNOWN, data={"function_call": "weather"}),)),
        ({"content": None}, ()),
    ],
    ids=repr,
)
def test_an_odd_field_of_a_message_is_kept(message, expected):
    assert get(OPENAI).parts({"role": "assistant", **message}) == expected


@pytest.mark.parametrize(
    ("item", "unread"),
    [
        ({"type": "function_call_output", "call_id": "c", "output": 5}, 5),
        ({"type": "computer_call_output", "call_id": "c", "output": "png"}, "png"),
        ({"type": "shell_call_output", "call_id": "c", "output": [{"stdout": "x"}]}, None),
        ({"type": "shell_call_output", "call_id": "c", "output": 5}, 5),
        ({"type": "file_search_call", "id": "c", "results": [{"score": 1}]}, {"score": 1}),
        ({"type": "code_interpreter_call", "id": "c", "outputs": [{"type": "x"}]}, {"type": "x"}),
        ({"type": "image_generation_call", "id": "c", "result": 5}, {"result": 5}),
        ({"type": "image_generation_call", "id": "c", "error": 5}, {"error": 5}),
        ({"type": "mcp_call", "id": "c", "name": "n", "error": {"code": 1}}, {"code": 1}),
    ],
    ids=repr,
)
def test_an_odd_output_is_kept_inside_of_the_result(item, unread):
    unread = {"stdout": "x"} if unread is None else unread
    result = get(OPENAI).parts(item)[-1]
    assert result.kind is RESULT
    assert result.call_id == "c"
    assert Part(UNKNOWN, data=unread) in result.parts


def test_odd_reasoning_is_kept():
    item = {"type": "reasoning", "summary": ["Hm.", {"text": 1}], "content": 5}
    assert get(OPENAI).parts(item) == tuple(
        Part(UNKNOWN, data=odd) for odd in ("Hm.", {"text": 1}, 5)
    )


def test_a_screenshot_that_is_missing_leaves_an_empty_result():
    item = {"type": "computer_call_output", "call_id": "c", "output": None}
    assert get(OPENAI).parts(item) == (Part(RESULT, name="computer", call_id="c"),)
