"""Every item and chat message is read. The examples are checked against the SDK's own types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import pytest
from openai.types.chat import ChatCompletionMessageParam
from openai.types.responses import ResponseInputItemParam, ResponseOutputItem
from pydantic import TypeAdapter
from typing_extensions import get_type_hints

from django_agent_sessions.content.dialects import OPENAI, Part, Summary, get

from .examples import UNKNOWN, examples, for_each

TOOL = {"type": "function", "name": "weather", "parameters": {}, "strict": True}

BOOKKEEPING: dict[str, tuple[dict[str, Any], str]] = {
    "mcp_list_tools": (
        {
            "id": "mcpl_1",
            "type": "mcp_list_tools",
            "server_label": "wiki",
            "tools": [{"name": "look_up", "input_schema": {}}],
        },
        "assistant",
    ),
    "compaction": ({"type": "compaction", "encrypted_content": "gAAAA"}, "assistant"),
    "compaction_trigger": ({"type": "compaction_trigger"}, ""),
    "item_reference": ({"type": "item_reference", "id": "msg_1"}, ""),
    "item_reference without a type": ({"id": "msg_1"}, ""),
    "additional_tools": (
        {"type": "additional_tools", "role": "developer", "tools": [TOOL]},
        "system",
    ),
    "configuration_update": (
        {"type": "configuration_update", "reasoning": {"effort": "low"}},
        "system",
    ),
}


@for_each("items")
def test_every_item_of_the_responses_api_is_read(item, role, words, expected):
    TypeAdapter(ResponseInputItemParam).validate_python(item)
    assert get(OPENAI).parts(item) == expected
    failed = any(part.status == "error" for part in expected)
    assert get(OPENAI).summary(item) == Summary(role, words, None, None, None, failed)


@for_each("chat")
def test_every_chat_message_is_read(item, role, words, expected):
    TypeAdapter(ChatCompletionMessageParam).validate_python(item)
    assert get(OPENAI).parts(item) == expected
    failed = any(part.status == "error" for part in expected)
    assert get(OPENAI).summary(item) == Summary(role, words, None, None, None, failed)


@for_each("beyond")
def test_what_apis_answer_and_sessions_hold_is_read_too(item, role, words, expected):
    # The SDK's types do not name it.
    assert get(OPENAI).parts(item) == expected
    failed = any(part.status == "error" for part in expected)
    assert get(OPENAI).summary(item) == Summary(role, words, None, None, None, failed)


@pytest.mark.parametrize(("item", "role"), BOOKKEEPING.values(), ids=list(BOOKKEEPING))
def test_bookkeeping_is_shown_as_it_is(item, role):
    TypeAdapter(ResponseInputItemParam).validate_python(item)
    assert get(OPENAI).parts(item) == (Part(UNKNOWN, data=item),)
    assert get(OPENAI).summary(item) == Summary(role, "", None, None, None)


def types_of(union: object) -> Iterator[str]:
    """Finds the ``type`` of each member of a union of the SDK's typed dicts or models."""
    for member in get_args(union):
        if not isinstance(member, type):
            continue
        fields = getattr(member, "model_fields", None)
        pending = [fields["type"].annotation if fields else get_type_hints(member)["type"]]
        while pending:
            hint = pending.pop()
            if isinstance(hint, str):
                yield hint
            pending.extend(get_args(hint))


def test_the_examples_cover_every_item_type_the_sdk_has():
    (outputs, *_) = get_args(ResponseOutputItem)
    wanted = {*types_of(ResponseInputItemParam), *types_of(outputs)}
    items = [example[0] for example in examples("items").values()]
    items += [example[0] for example in BOOKKEEPING.values()]
    assert {item["type"] for item in items if "type" in item} == wanted
