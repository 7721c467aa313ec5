"""What APIs answer and sessions hold is read, though the SDK's types do not name it."""

from __future__ import annotations

import pytest

from django_agent_sessions.content.dialects import OPENAI, Part, Summary, get

from .examples import BASE64, CALL, DOCUMENT, REASONING, RESULT, Example, said, text, with_ids

BEYOND_THE_PARAMS: dict[str, Example] = {
    "assistant who spoke, as the API answers": (
        {
            "role": "assistant",
            "content": None,
            "audio": {"id": "audio_1", "data": BASE64, "transcript": "Hello", "expires_at": 1},
        },
        "assistant",
        "Hello",
        (Part(DOCUMENT, text="Hello", data={"id": "audio_1"}, size=5),),
    ),
    "reasoning of other models": (
        {"role": "assistant", "content": "Yes.", "reasoning_content": "Hm."},
        "assistant",
        "Yes.",
        (Part(REASONING, text="Hm."), text("Yes.")),
    ),
    "reasoning inside of a message": (
        said("assistant", {"type": "reasoning_text", "text": "Hm."}),
        "assistant",
        "",
        (Part(REASONING, text="Hm."),),
    ),
    "role that only the API knows": (
        said("critic", {"type": "text", "text": "Weak."}),
        "",
        "Weak.",
        (text("Weak."),),
    ),
    "shell output as one text": (
        {"type": "shell_call_output", "call_id": "call_1", "output": "a.txt"},
        "tool",
        "a.txt",
        (Part(RESULT, text="a.txt", name="shell", call_id="call_1", parts=(text("a.txt"),)),),
    ),
    "MCP error as text": (
        {"type": "mcp_call", "id": "m", "name": "n", "arguments": "{}", "error": "Broken"},
        "assistant",
        "Broken",
        (
            Part(CALL, name="n", call_id="m", data={}),
            Part(
                RESULT,
                text="Broken",
                name="n",
                call_id="m",
                status="error",
                parts=(text("Broken"),),
            ),
        ),
    ),
}


@pytest.mark.parametrize(("item", "role", "words", "expected"), **with_ids(BEYOND_THE_PARAMS))
def test_what_apis_answer_and_sessions_hold_is_read_too(item, role, words, expected):
    assert get(OPENAI).parts(item) == expected
    assert get(OPENAI).summary(item) == Summary(role, words, None, None, None)
