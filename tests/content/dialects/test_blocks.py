from __future__ import annotations

import base64

import pytest
from hypothesis import given

from django_agent_sessions.content.dialects import OPENAI, STRANDS, PartKind, get
from django_agent_sessions.content.paths import value_at
from tests.strategies import json_values

PNG = b"\x89PNG\r\n\x1a\n and pixels"
PNG_URL = "data:image/png;base64," + base64.b64encode(PNG).decode()


def paths(dialect, payload):
    return [block.path for block in get(dialect).blocks(payload)]


def all_blocks(dialect, payload):
    return [found for block in get(dialect).blocks(payload) for found in (block, *block.inner)]


STRANDS_MESSAGE = {
    "role": "user",
    "content": [
        {"text": "look"},
        {"image": {"format": "png", "source": {"bytes": PNG}}},
        {"cachePoint": {"type": "default"}},
        {"toolUse": {"toolUseId": "t", "name": "search", "input": {"q": 1}}},
        {
            "toolResult": {
                "toolUseId": "t",
                "status": "error",
                "content": [
                    {"text": "no"},
                    {"json": {"a": 1}},
                    {"image": {"format": "png", "source": {"bytes": PNG}}},
                ],
                "structuredContent": {"b": 2},
            }
        },
        {"reasoningContent": {"reasoningText": {"text": "hm"}}},
        {"novelty": 1},
    ],
}


def test_every_block_of_a_strands_message_has_the_path_that_leads_to_it():
    found = get(STRANDS).blocks(STRANDS_MESSAGE)

    assert [block.path for block in found] == [("content", number) for number in range(7)]
    assert [block.path for block in found[4].inner] == [
        ("content", 4, "toolResult", "content", number) for number in range(3)
    ]
    assert [part.text for part in found[4].inner[0].parts] == ["no"]
    assert found[4].inner[1].parts[0].data == {"a": 1}
    for block in all_blocks(STRANDS, STRANDS_MESSAGE):
        value_at(STRANDS_MESSAGE, block.path)


ITEMS = [
    ({"role": "user", "content": "hello"}, [("content",)]),
    (
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]},
        [("content", 0)],
    ),
    (
        {"role": "assistant", "content": None, "refusal": "no", "tool_calls": [
            {"id": "1", "function": {"name": "f", "arguments": "{}"}},
            {"id": "2", "function": {"name": "g", "arguments": "{}"}},
        ]},
        [("refusal",), ("tool_calls", 0), ("tool_calls", 1)],
    ),
    ({"role": "assistant", "reasoning_content": "hm", "content": "a"},
     [("reasoning_content",), ("content",)]),
    ({"role": "tool", "tool_call_id": "1", "content": "done"}, [("content",)]),
    ({"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"}, [("arguments",)]),
    ({"type": "function_call_output", "call_id": "1", "output": "done"}, [("output",)]),
    ({"type": "custom_tool_call", "call_id": "1", "name": "f", "input": "x"}, [("input",)]),
    ({"type": "computer_call", "call_id": "1", "actions": [{"type": "click"}]}, [("actions",)]),
    (
        {"type": "computer_call_output", "call_id": "1",
         "output": {"type": "computer_screenshot", "image_url": PNG_URL}},
        [("output",)],
    ),
    (
        {"type": "file_search_call", "id": "1", "queries": ["q"], "results": [{"text": "found"}]},
        [("queries",), ("results",)],
    ),
    ({"type": "mcp_call", "id": "1", "name": "f", "arguments": "{}", "output": "done"},
     [("arguments",), ("output",)]),
    ({"type": "code_interpreter_call", "id": "1", "code": "1", "outputs": [{"logs": "1"}]},
     [("code",), ("outputs",)]),
    ({"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}, [("summary", 0)]),
    ({"type": "reasoning", "summary": [], "encrypted_content": "x"}, [()]),
    ({"type": "item_reference", "id": "1"}, [()]),
    ({"type": "compaction", "encrypted_content": "x"}, [()]),
]  # fmt: skip


@pytest.mark.parametrize(("item", "expected"), ITEMS)
def test_every_block_of_an_openai_item_has_the_path_that_leads_to_it(item, expected):
    assert paths(OPENAI, item) == expected
    for path in expected:
        value_at(item, path)


@pytest.mark.parametrize(
    ("dialect", "payload"), [(STRANDS, STRANDS_MESSAGE), *((OPENAI, item) for item, _ in ITEMS)]
)
def test_the_blocks_of_a_payload_hold_all_of_its_parts_in_order(dialect, payload):
    read = [part for block in get(dialect).blocks(payload) for part in block.parts]

    assert read == list(get(dialect).parts(payload))


def test_a_list_that_a_tool_returned_is_addressed_one_by_one():
    output = [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": PNG_URL}]
    item = {"type": "function_call_output", "call_id": "1", "output": output}

    [block] = get(OPENAI).blocks(item)

    assert [inner.path for inner in block.inner] == [("output", 0), ("output", 1)]
    assert get(OPENAI).binary_at(item, ("output", 1)) == (PNG, "image/png")
    assert get(OPENAI).binary_at(item, ("output", 0)) is None


@given(value=json_values)
def test_whatever_the_payload_is_it_is_taken_apart(value):
    for dialect in (STRANDS, OPENAI, "other"):
        for payload in (value, {"role": "user", "content": value}, {"type": value}):
            for block in all_blocks(dialect, payload):
                value_at(payload, block.path)
                get(dialect).binary_at(payload, block.path)


@pytest.mark.parametrize(
    "data",
    [
        PNG,
        base64.b64encode(PNG).decode(),
        PNG_URL,
        {"__bytes_encoded__": True, "data": base64.b64encode(PNG).decode()},
    ],
)
def test_bytes_in_every_form_come_out_of_a_strands_message(data):
    image = {"image": {"format": "png", "source": {"bytes": data}}}
    result = {"toolResult": {"toolUseId": "t", "content": [image]}}
    payload = {"role": "user", "content": [image, result, {"guardContent": image}]}

    for path in (
        ("content", 0),
        ("content", 1, "toolResult", "content", 0),
        ("content", 2),
    ):
        assert get(STRANDS).binary_at(payload, path) == (PNG, "image/png")


@pytest.mark.parametrize(
    "block",
    [
        {"type": "input_image", "image_url": PNG_URL},
        {"type": "image_url", "image_url": {"url": PNG_URL}},
        {"type": "input_file", "filename": "a", "file_data": PNG_URL},
        {"type": "input_file", "filename": "a", "file_data": base64.b64encode(PNG).decode()},
        {"type": "file", "file": {"file_data": PNG_URL}},
        {"type": "input_audio", "input_audio": {"data": base64.b64encode(PNG).decode()}},
    ],
)
def test_bytes_in_every_form_come_out_of_an_openai_message(block):
    payload = {"role": "user", "content": [{"type": "input_text", "text": "x"}, block]}

    found = get(OPENAI).binary_at(payload, ("content", 1))

    assert found is not None
    assert found[0] == PNG


def test_drawings_and_screenshots_come_out_of_their_items():
    drawing = {"type": "image_generation_call", "id": "1", "output_format": "png",
               "result": base64.b64encode(PNG).decode()}  # fmt: skip
    screen = {"type": "computer_call_output", "call_id": "1",
              "output": {"type": "computer_screenshot", "image_url": PNG_URL}}  # fmt: skip
    code = {"type": "code_interpreter_call", "id": "1", "outputs": [{"url": PNG_URL}]}

    assert get(OPENAI).binary_at(drawing, ("result",)) == (PNG, "image/png")
    assert get(OPENAI).binary_at(screen, ("output",)) == (PNG, "image/png")
    assert get(OPENAI).binary_at(code, ("outputs", 0)) == (PNG, "image/png")


@pytest.mark.parametrize(
    "path",
    [
        (),
        ("content",),
        ("content", 0),
        ("content", 9),
        ("content", -1),
        ("content", 1, "image", "source", "bytes"),
        ("content", True),
        ("role",),
    ],
)
def test_no_other_path_gives_a_binary(path):
    assert get(STRANDS).binary_at(STRANDS_MESSAGE, path) is None


@pytest.mark.parametrize("data", ["%%%", "https://example.org/a.png", "data:nothing", 7, None])
def test_what_is_no_binary_is_none(data):
    payload = {"content": [{"image": {"format": "png", "source": {"bytes": data}}}]}

    assert get(STRANDS).binary_at(payload, ("content", 0)) is None


def test_what_stands_at_an_address_is_found():
    part = get(STRANDS).part_at(STRANDS_MESSAGE, ("content", 4, "toolResult", "content", 0))

    assert part is not None
    assert (part.kind, part.text) == (PartKind.TEXT, "no")
    assert get(STRANDS).part_at(STRANDS_MESSAGE, ("content", 2)) is None
