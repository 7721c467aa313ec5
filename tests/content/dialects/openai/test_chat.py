"""Every chat message is read. The examples are checked against the SDK's own types."""

from __future__ import annotations

import pytest
from openai.types.chat import ChatCompletionMessageParam
from pydantic import TypeAdapter

from django_agent_sessions.content.dialects import OPENAI, Part, Summary, get

from .examples import BASE64, CALL, DOCUMENT, FILE, IMAGE, PNG, RESULT, Example, text, with_ids

FUNCTION_CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "weather", "arguments": '{"city": "Ulm"}'},
}

CHAT_MESSAGES: dict[str, Example] = {
    "system": (
        {"role": "system", "content": "Be kind."},
        "system",
        "Be kind.",
        (text("Be kind."),),
    ),
    "user with everything": (
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Look"},
                {"type": "image_url", "image_url": {"url": PNG}},
                {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
                {"type": "input_audio", "input_audio": {"data": BASE64, "format": "wav"}},
                {"type": "file", "file": {"filename": "a.pdf", "file_data": BASE64}},
                {"type": "file", "file": {"file_id": "file-1"}},
            ],
        },
        "user",
        "Look",
        (
            text("Look"),
            Part(IMAGE, media_type="image/png", size=5),
            Part(IMAGE, url="https://example.org/a.png"),
            Part(DOCUMENT, media_type="audio/wav", size=5),
            Part(DOCUMENT, name="a.pdf", size=5),
            Part(DOCUMENT, data=FILE),
        ),
    ),
    "assistant with calls": (
        {
            "role": "assistant",
            "content": "One moment.",
            "tool_calls": [
                FUNCTION_CALL,
                {"id": "call_2", "type": "custom", "custom": {"name": "sql", "input": "1"}},
            ],
        },
        "assistant",
        "One moment.",
        (
            text("One moment."),
            Part(CALL, name="weather", call_id="call_1", data={"city": "Ulm"}),
            Part(CALL, name="sql", call_id="call_2", data="1"),
        ),
    ),
    "assistant with the older kind of call": (
        {
            "role": "assistant",
            "content": None,
            "function_call": {"name": "weather", "arguments": "{}"},
        },
        "assistant",
        "",
        (Part(CALL, name="weather", data={}),),
    ),
    "assistant who refuses": (
        {
            "role": "assistant",
            "refusal": "I will not.",
            "content": [{"type": "refusal", "refusal": "No."}],
        },
        "assistant",
        "No.\nI will not.",
        (text("No."), text("I will not.")),
    ),
    "assistant who spoke": (
        {"role": "assistant", "content": None, "audio": {"id": "audio_1"}},
        "assistant",
        "",
        (Part(DOCUMENT, data={"id": "audio_1"}),),
    ),
    "tool": (
        {"role": "tool", "tool_call_id": "call_1", "content": '{"sun": true}'},
        "tool",
        '{"sun": true}',
        (
            Part(
                RESULT,
                text='{"sun": true}',
                call_id="call_1",
                data={"sun": True},
                parts=(text('{"sun": true}'),),
            ),
        ),
    ),
    "tool with blocks": (
        {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "Sunny"}]},
        "tool",
        "Sunny",
        (Part(RESULT, text="Sunny", call_id="call_1", parts=(text("Sunny"),)),),
    ),
    "function": (
        {"role": "function", "name": "weather", "content": "Sunny"},
        "tool",
        "Sunny",
        (Part(RESULT, text="Sunny", name="weather", parts=(text("Sunny"),)),),
    ),
}


@pytest.mark.parametrize(("item", "role", "words", "expected"), **with_ids(CHAT_MESSAGES))
def test_every_chat_message_is_read(item, role, words, expected):
    TypeAdapter(ChatCompletionMessageParam).validate_python(item)
    assert get(OPENAI).parts(item) == expected
    assert get(OPENAI).summary(item) == Summary(role, words, None, None, None)
