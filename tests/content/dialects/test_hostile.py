"""Whatever a payload holds, reading it never raises, drops nothing, and stays within limits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from django_agent_sessions.content.dialects import (
    ASSISTANT_UI,
    OPENAI,
    STRANDS,
    TEXT_CAP,
    Part,
    PartKind,
    Summary,
    get,
)
from django_agent_sessions.content.dialects.assistant_ui import _READERS
from django_agent_sessions.content.dialects.base import parts_of
from django_agent_sessions.content.dialects.openai import blocks as openai_blocks
from django_agent_sessions.content.dialects.openai import items
from django_agent_sessions.content.dialects.parts import join_searchable_text, readable_texts
from django_agent_sessions.content.masking import redact_block
from django_agent_sessions.content.paths import value_at

# Every word that means something to a reader, so that odd values stand where they matter.
WORDS = [
    *("role", "content", "type", "text", "metadata", "usage", "metrics", "inputTokens", "name"),
    *("latencyMs", "toolUse", "toolResult", "toolUseId", "input", "status", "source", "bytes"),
    *("location", "s3Location", "uri", "url", "json", "image", "document", "video", "audio"),
    *("reasoningContent", "reasoningText", "redactedContent", "guardContent", "cachePoint"),
    *("citationsContent", "citations", "format", "context", "__bytes_encoded__", "data"),
    *("call_id", "id", "output", "arguments", "summary", "refusal", "tool_calls", "function"),
    *("function_call", "custom", "tool_call_id", "image_url", "file_id", "file_data", "file"),
    *("file_url", "input_audio", "annotations", "results", "result", "error", "message"),
    *("outputs", "logs", "stdout", "stderr", "outcome", "exit_code", "action", "actions"),
    *("tools", "reason", "approve", "transcript", "reasoning_content", "structuredContent"),
]
TYPES = [
    *items._ITEMS,
    *openai_blocks._BLOCKS,
    *openai_blocks._TEXTS,
    *("message", "user", "assistant", "tool", "function", "developer", "png", "success", "failed"),
    "data:image/png;base64,AAAA",
    '{"a": [1]}',
]

any_text = st.text(st.characters(codec=None, exclude_categories=[]), max_size=20)
leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**400, -(10**4000), 2**31])
    | st.floats()
    | any_text
    | st.binary(max_size=20)
    | st.sampled_from(TYPES)
)
anything = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(any_text, inner, max_size=5)
        | st.dictionaries(st.sampled_from(WORDS), inner, max_size=6)
    ),
    max_leaves=25,
)
blocks = st.dictionaries(st.sampled_from(WORDS), anything, max_size=4) | st.fixed_dictionaries(
    {"type": st.sampled_from(TYPES)},
    optional=dict.fromkeys(WORDS[WORDS.index("call_id") :], anything),
)
messages = st.fixed_dictionaries(
    {"role": st.sampled_from(TYPES) | anything, "content": st.lists(blocks | anything, max_size=5)},
    optional={"metadata": anything, "tool_calls": anything, "refusal": anything},
)
payloads = anything | blocks | messages
dialects = st.sampled_from([STRANDS, OPENAI, ASSISTANT_UI])
CLIENT_WORDS = [
    *("text", "toolCallId", "toolName", "state", "input", "output", "errorText", "url", "data"),
    *("mediaType", "filename", "image", "audio", "format", "args", "argsText", "result", "title"),
    *("sourceType", "sourceId", "rawInput", "isError", "mimeType", "approval", "id"),
]
CLIENT_TYPES = [*_READERS, "tool-x", "tool-", "dynamic-tool", "tool-call", "data-x", "data"]
said = st.fixed_dictionaries(
    {"type": st.sampled_from([*CLIENT_TYPES, "step-start"]) | anything},
    optional=dict.fromkeys(CLIENT_WORDS, anything),
)
client_payloads = st.fixed_dictionaries(
    {
        "content": anything
        | st.fixed_dictionaries(
            {"role": anything},
            optional={
                "parts": anything | st.lists(said | anything, max_size=4),
                "content": anything | st.lists(said | anything, max_size=4),
                "id": anything,
            },
        )
    },
    optional={"id": anything, "parent_id": anything, "format": anything},
)
cases = st.tuples(dialects, payloads) | st.tuples(st.just(ASSISTANT_UI), client_payloads)


def all_parts(found: tuple[Part, ...]) -> Iterator[Part]:
    for part in found:
        yield part
        yield from all_parts(part.parts)


def read(dialect: str, payload: Any) -> tuple[Part, ...]:
    """The parts, read without the net that would hide faults."""
    return parts_of(get(dialect).read(payload))


@settings(deadline=None)
@given(cases)
def test_reading_anything_yields_well_typed_parts(case):
    dialect, payload = case
    for part in all_parts(read(dialect, payload)):
        assert isinstance(part, Part)
        assert isinstance(part.kind, PartKind)
        words = (part.text, part.name, part.call_id, part.media_type, part.url)
        assert all(isinstance(word, str) for word in words)
        assert part.status in ("", "success", "error")
        assert part.size is None or part.size >= 0
        assert not part.url.lower().startswith("data:")


@settings(deadline=None)
@given(cases)
def test_summing_anything_up_yields_what_columns_hold(case):
    dialect, payload = case
    found = get(dialect).summarize(payload)
    assert isinstance(found, Summary)
    assert found.role in ("user", "assistant", "system", "tool", "")
    assert len(found.text) <= TEXT_CAP
    assert "\x00" not in found.text
    found.text.encode()
    for count in (found.input_tokens, found.output_tokens, found.latency_ms):
        assert count is None or (type(count) is int and 0 <= count < 2**31)


@settings(deadline=None)
@given(cases)
def test_the_text_of_a_summary_is_that_of_the_parts(case):
    dialect, payload = case
    found = read(dialect, payload)
    if len(found) == 1 and found[0].kind is PartKind.UNKNOWN and found[0].data is payload:
        return
    assert get(dialect).summarize(payload).text == join_searchable_text(readable_texts(found))


@settings(deadline=None)
@given(cases)
def test_each_path_leads_somewhere_and_can_be_blanked_alone(case):
    dialect, payload = case
    for block in get(dialect).blocks(payload):
        value_at(payload, block.path)
        get(dialect).binary_at(payload, block.path)
        if isinstance(payload, dict):
            redact_block(dialect, payload, block.path)


@settings(deadline=None)
@given(st.lists(blocks | anything, max_size=4))
def test_no_block_of_a_strands_message_is_dropped(content):
    one_by_one = [part for block in content for part in get(STRANDS).parts({"content": [block]})]
    together = get(STRANDS).parts({"role": "user", "content": content})
    assert len(together) == len(one_by_one)
    for block in content:
        if isinstance(block, dict) and set(block) == {"cachePoint"}:
            continue
        assert get(STRANDS).parts({"role": "user", "content": [block]})


@settings(deadline=None)
@given(st.lists(blocks | anything, max_size=4), st.sampled_from(["user", "assistant", "system"]))
def test_every_block_of_an_openai_message_is_one_part(content, role):
    assert len(get(OPENAI).parts({"role": role, "content": content})) == len(content)


@settings(deadline=None)
@given(blocks)
def test_every_openai_item_yields_a_part(item):
    found = get(OPENAI).parts(item)
    assert found or item.get("type") in (None, "message")


@pytest.mark.parametrize("dialect", [STRANDS, OPENAI, ASSISTANT_UI])
@pytest.mark.parametrize(
    "place",
    [
        lambda deep: deep,
        lambda deep: {"role": "user", "content": deep},
        lambda deep: {"role": "user", "content": [deep]},
        lambda deep: {"role": "user", "content": [{"toolUse": {"name": "n", "input": deep}}]},
        lambda deep: {
            "role": "user",
            "content": [{"toolResult": {"toolUseId": "t", "content": [{"json": deep}, deep]}}],
        },
        lambda deep: {"type": "function_call_output", "call_id": "c", "output": deep},
        lambda deep: {"type": "function_call", "name": "n", "arguments": deep},
        lambda deep: {"type": "reasoning", "summary": deep},
        lambda deep: {"content": {"role": "user", "parts": [deep]}},
        lambda deep: {
            "content": {"parts": [{"type": "tool-pay", "toolCallId": "c", "output": deep}]}
        },
    ],
)
def test_nesting_of_any_depth_is_read(dialect, place):
    deep_list: Any = []
    deep_dict: Any = {}
    for _ in range(10_000):
        deep_list, deep_dict = [deep_list], {"content": deep_dict}
    for deep in (deep_list, deep_dict):
        assert read(dialect, place(deep))
        assert get(dialect).summarize(place(deep)).text == ""


class Treacherous(dict[str, Any]):
    """A dict that cannot be read."""

    def get(self, *args: Any) -> Any:
        raise RuntimeError("no")

    def items(self) -> Any:
        raise RuntimeError("no")


@pytest.mark.parametrize("dialect", [STRANDS, OPENAI])
@pytest.mark.parametrize(
    "payload", [Treacherous(a=1), {"role": "user", "content": [Treacherous(a=1)]}]
)
def test_an_object_that_cannot_be_read_is_still_shown(dialect, payload):
    (part,) = get(dialect).parts(payload)
    assert part.kind is PartKind.UNKNOWN
    assert part.data is payload
    assert get(dialect).summary(payload) == Summary("", "", None, None, None)
