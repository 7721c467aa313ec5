"""Nothing of a message that is redacted as a whole is left, whoever wrote what where."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from django_agent_sessions.content.dialects import ASSISTANT_UI, OPENAI, STRANDS, get, vocabulary
from django_agent_sessions.content.masking import (
    masked_texts,
    message_redaction,
    redact_block,
    redact_message,
)

SECRET = "jane doe"
PLAIN = "janedoe"
"""What looks like an id or a name, and may stay as one."""

KEYS = vocabulary().all_keys
TOOL_STATES = {
    *("input-streaming", "input-available", "approval-requested", "approval-responded"),
    *("output-available", "output-error", "output-denied"),
}
IDS_AND_NAMES = vocabulary().ids | {
    *("name", "server_label", "namespace", "connector_id", "container_id", "caller_id", "skill_id"),
    *("toolName", "type", "format"),
}
DIALECTS = [STRANDS, OPENAI, ASSISTANT_UI]

secrets = st.sampled_from(
    [
        SECRET,
        f"https://h.example/?patient={SECRET}",
        f"tool-{SECRET}",
        f"data-{SECRET}",
        f"data:text/plain;base64,{SECRET}",
        f"call_{SECRET}",
        f"redacted-{SECRET}",
        f"[REDACTED:{SECRET}]",
        json.dumps({SECRET: SECRET}),
        f"{SECRET} \ud800",
    ]
)
kinds = st.sampled_from(
    [
        *("text", "reasoning", "file", "image", "source", "source-url", "step-start", "data"),
        *("dynamic-tool", "tool-call", "tool-pay", "data-card", "audio", "component"),
        *("message", "function_call", "function_call_output", "shell_call_output", "compaction"),
        *("input_text", "output_text", "refusal", "input_image", "computer_call_output"),
        *("image_generation_call", "mcp_call", "custom_tool_call", "computer_screenshot"),
    ]
)
words = st.sampled_from(
    ["user", "assistant", "tool", "success", "url", "aui/v0", "ai-sdk/v6", *sorted(TOOL_STATES)]
)
keys = (
    st.sampled_from([*sorted(KEYS), "type", "role", "content", "parts", "state", PLAIN]) | secrets
)
odd = st.one_of(
    secrets,
    st.just(PLAIN),
    kinds,
    words,
    st.none(),
    st.booleans(),
    st.integers(0, 9),
    st.just([]),
    st.just({}),
)
values = st.recursive(
    odd,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(keys, inner, max_size=4)
        | st.builds(
            lambda found, kind: {**found, "type": kind}, st.dictionaries(keys, inner), kinds
        )
    ),
    max_leaves=12,
)
AUI_KEYS = [
    *("toolCallId", "toolName", "state", "providerExecuted", "preliminary", "isError", "approval"),
    *("sourceId", "sourceType", "id", "name", "url", "title", "mediaType", "mimeType", "data"),
    *("text", "input", "output", "result", "errorText", "args", "argsText", "image", "filename"),
]
approvals = st.fixed_dictionaries({}, optional={"id": values, "approved": values, "reason": values})
parts = st.builds(
    lambda kind, rest, approval: {"type": kind, **rest, "approval": approval},
    kinds | secrets,
    st.fixed_dictionaries({}, optional=dict.fromkeys(AUI_KEYS, values)),
    approvals | values,
)
aui_contents = st.fixed_dictionaries(
    {"role": words | values},
    optional={
        "id": values,
        "parts": st.lists(parts | values, max_size=4) | values,
        "content": st.lists(parts | values, max_size=4) | values,
        "metadata": values,
    },
)
aui = st.fixed_dictionaries(
    {"id": values, "parent_id": values, "format": words | values, "content": aui_contents | values},
    optional={"content_digest": values},
)
strands_uses = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("toolUseId", "name", "input", "status", "content"), values)
)
strands_blocks = st.builds(
    lambda key, value: {key: value},
    st.sampled_from(["text", "toolUse", "toolResult", "image", "cachePoint", "reasoningContent"]),
    strands_uses | values,
)
figures = st.dictionaries(keys, values, max_size=4)
strands = st.fixed_dictionaries(
    {"role": words | values, "content": st.lists(strands_blocks, max_size=3) | values},
    optional={
        "tracking_id": values,
        "metadata": st.fixed_dictionaries(
            {}, optional={"usage": figures, "metrics": figures, "custom": figures | values}
        )
        | values,
    },
)
functions = st.fixed_dictionaries({}, optional={"name": values, "arguments": values})
openai = st.builds(
    lambda found, more: {**found, **more},
    st.dictionaries(keys, values, max_size=6),
    st.fixed_dictionaries(
        {},
        optional={
            "type": kinds | values,
            "role": words | values,
            "content": st.lists(parts | values, max_size=3) | values,
            "function_call": functions | values,
            "tool_calls": st.lists(
                st.fixed_dictionaries(
                    {"id": values, "type": values},
                    optional={"function": functions | figures, "custom": functions | figures},
                )
                | values,
                max_size=2,
            )
            | values,
            "output": st.lists(parts | values, max_size=2) | values,
        },
    ),
)
payloads = st.one_of(
    st.tuples(st.just(ASSISTANT_UI), aui),
    st.tuples(st.just(STRANDS), strands),
    st.tuples(st.just(OPENAI), openai),
    st.tuples(st.sampled_from(DIALECTS), st.dictionaries(keys, values, max_size=6)),
)


def stored(*said: Any, **more: Any) -> dict[str, Any]:
    content = {"role": "assistant", "parts": list(said)}
    return {"id": "a", "parent_id": None, "format": "ai-sdk/v6", "content": content, **more}


def texts(value: Any) -> set[str]:
    """All texts and keys of a payload."""
    if isinstance(value, dict):
        return set(value).union(*map(texts, value.values()))
    if isinstance(value, list):
        return set().union(*map(texts, value))
    return {value} if isinstance(value, str) else set()


def standing(value: Any, text: str, key: str = "") -> set[str]:
    """The keys under which a text stands; a key that is the text itself, too."""
    if isinstance(value, dict):
        own = {text} & value.keys()
        return own.union(*(standing(inner, text, name) for name, inner in value.items()))
    if isinstance(value, list):
        return set().union(*(standing(inner, text, key) for inner in value))
    return {key} if isinstance(value, str) and text in value else set()


@given(payloads)
@example((ASSISTANT_UI, stored({"type": "text", "text": SECRET, "state": []})))
@example((ASSISTANT_UI, stored({"type": "dynamic-tool", "toolCallId": SECRET, "state": {}})))
@example((ASSISTANT_UI, stored({"type": f"data-{SECRET}", "id": SECRET, "name": SECRET})))
@example((STRANDS, {"role": "user", "content": [{"cachePoint": {"type": SECRET}}]}))
@example((OPENAI, {"role": "user", "content": [{"type": [SECRET]}]}))
@example((OPENAI, {"type": "x", "data": {"id": [SECRET], "name": {SECRET: 1}}, "call_id": 5}))
def test_nothing_that_was_said_is_left_anywhere(pair):
    dialect, payload = pair

    # Itself, in front of the net that would hide its faults.
    blanked = message_redaction._redact(dialect, payload)

    assert not any(SECRET in text for text in texts(blanked))
    assert standing(blanked, PLAIN) <= IDS_AND_NAMES
    assert redact_message(dialect, payload) == blanked
    assert redact_message(dialect, blanked) == blanked
    assert SECRET not in get(dialect).summary(blanked).text
    assert all(isinstance(text, str) for text in masked_texts(payload, blanked))


@given(payloads)
def test_what_cannot_be_blanked_part_by_part_becomes_a_mask(pair):
    dialect, payload = pair

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(message_redaction, "_redact", lambda dialect, message: 1 / 0)
        blanked = redact_message(dialect, payload)

    assert not any(SECRET in text for text in texts(blanked))
    assert "[REDACTED]" in texts(blanked)
    assert get(dialect).summary(blanked).text == "[REDACTED]"


@given(payloads)
@example((OPENAI, {"role": "user", "content": [{"text": "x"}], "tool_calls": [{"id": "c"}]}))
def test_each_block_of_it_can_be_blanked_alone(pair):
    dialect, payload = pair

    for block in get(dialect).blocks(payload):
        redact_block(dialect, payload, block.path)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_one_that_nests_deeper_than_can_be_followed_becomes_a_mask(dialect):
    deep: Any = SECRET
    for _ in range(50_000):
        deep = [deep]
    for payload in (
        {"role": "user", "content": deep, "output": deep},
        stored({"type": "file", "mediaType": deep}),
    ):
        blanked = redact_message(dialect, payload)

        assert SECRET not in json.dumps(blanked)


@pytest.mark.parametrize("value", ["true", 1, SECRET, [], {SECRET: 1}])
def test_flags_are_kept_only_if_they_are_flags(value):
    call = {"type": "tool-pay", "toolCallId": "c", "state": "output-error"}
    flags = ("isError", "preliminary", "providerExecuted")
    odd = stored({**call, **dict.fromkeys(flags, value), "approval": {"approved": value}})
    sound = stored({**call, **dict.fromkeys(flags, True), "approval": {"approved": False}})

    assert redact_message(ASSISTANT_UI, odd) == stored({**call, "approval": {}})
    assert redact_message(ASSISTANT_UI, sound) == sound


def test_ids_and_names_that_say_more_are_others_and_alike_wherever_they_stand():
    use = {"toolUseId": f"use {SECRET}", "name": f"pay {SECRET}", "input": {}}
    result = {"toolUseId": f"use {SECRET}", "status": "success", "content": [{"text": "x"}]}
    call = {"type": "function_call", "call_id": f"call_{SECRET}", "name": "pay", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": f"call_{SECRET}", "output": "x"}

    used = redact_message(STRANDS, {"role": "assistant", "content": [{"toolUse": use}]})["content"][
        0
    ]
    answered = redact_message(STRANDS, {"role": "user", "content": [{"toolResult": result}]})[
        "content"
    ][0]
    called = redact_message(OPENAI, call)

    assert used["toolUse"]["toolUseId"] == answered["toolResult"]["toolUseId"]
    assert used["toolUse"]["name"] == "redacted"
    assert called["call_id"].startswith("call_redacted")
    assert called["call_id"] == redact_message(OPENAI, output)["call_id"]
    assert called["name"] == "pay"


@pytest.mark.parametrize(
    "name",
    ["tooluse_aB-3", "call_1", "call_a__thought__CiQB+/0=", "get_weather", "a:b|c"],
)
def test_ids_as_providers_give_them_stay(name):
    use = {"toolUse": {"toolUseId": name, "name": "get-weather_2", "input": {}}}
    message = {"role": "assistant", "content": [use], "tracking_id": name}
    call = {"type": "function_call", "id": name, "call_id": name, "name": "a.b", "arguments": "{}"}

    assert redact_message(STRANDS, message) == message
    assert redact_message(OPENAI, call) == call


def test_what_a_frontend_cites_or_calls_its_data_is_its_content():
    source = {"type": "source-url", "sourceId": "www.h.example", "url": "https://www.h.example"}
    data = {"type": "data-hiv", "id": "hiv", "name": "hiv", "data": {"hiv": True}}
    tool = {"type": f"tool-{SECRET}", "toolCallId": "c"}

    cited, other, called = redact_message(ASSISTANT_UI, stored(source, data, tool))["content"][
        "parts"
    ]

    assert "h.example" not in json.dumps(cited)
    assert cited["sourceId"].startswith("redacted-")
    assert other == {"type": "text", "text": "[REDACTED]"}
    assert called == {"type": "tool-redacted", "toolCallId": "c"}
