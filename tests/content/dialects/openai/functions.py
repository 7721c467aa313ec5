"""Calls of functions, custom tools and computers, which the caller answers."""

from __future__ import annotations

from django_agent_sessions.content.dialects import Part

from .examples import CALL, DOCUMENT, FILE, IMAGE, PNG, RESULT, Example, text

FUNCTIONS: dict[str, Example] = {
    "function call": (
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_1",
            "name": "weather",
            "arguments": '{"city": "Ulm"}',
            "status": "completed",
        },
        "assistant",
        "",
        (Part(CALL, name="weather", call_id="call_1", data={"city": "Ulm"}),),
    ),
    "function call with arguments that do not parse": (
        {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": '{"city'},
        "assistant",
        "",
        (Part(CALL, name="weather", call_id="call_1", data='{"city'),),
    ),
    "function output of text": (
        {"type": "function_call_output", "call_id": "call_1", "output": "Sunny"},
        "tool",
        "Sunny",
        (Part(RESULT, text="Sunny", call_id="call_1", parts=(text("Sunny"),)),),
    ),
    "function output of JSON": (
        {"type": "function_call_output", "call_id": "call_1", "output": '{"sun": true}'},
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
    "function output of several": (
        {
            "type": "function_call_output",
            "call_id": "call_1",
            "name": "weather",
            "output": [
                {"type": "input_text", "text": "Sunny"},
                {"type": "input_image", "image_url": PNG},
                {"type": "input_file", "file_id": "file-1"},
            ],
        },
        "tool",
        "Sunny",
        (
            Part(
                RESULT,
                text="Sunny",
                name="weather",
                call_id="call_1",
                parts=(
                    text("Sunny"),
                    Part(IMAGE, media_type="image/png", size=5),
                    Part(DOCUMENT, data=FILE),
                ),
            ),
        ),
    ),
    "custom tool call": (
        {"type": "custom_tool_call", "call_id": "call_1", "name": "sql", "input": "1"},
        "assistant",
        "",
        (Part(CALL, name="sql", call_id="call_1", data="1"),),
    ),
    "custom tool output": (
        {"type": "custom_tool_call_output", "call_id": "call_1", "output": "one row"},
        "tool",
        "one row",
        (Part(RESULT, text="one row", call_id="call_1", parts=(text("one row"),)),),
    ),
    "computer call": (
        {
            "id": "cu_1",
            "type": "computer_call",
            "call_id": "call_1",
            "status": "completed",
            "pending_safety_checks": [],
            "action": {"type": "screenshot"},
        },
        "assistant",
        "",
        (Part(CALL, name="computer", call_id="call_1", data={"type": "screenshot"}),),
    ),
    "computer call of several actions": (
        {
            "id": "cu_1",
            "type": "computer_call",
            "call_id": "call_1",
            "status": "completed",
            "pending_safety_checks": [],
            "actions": [{"type": "wait"}, {"type": "screenshot"}],
        },
        "assistant",
        "",
        (
            Part(
                CALL,
                name="computer",
                call_id="call_1",
                data=[{"type": "wait"}, {"type": "screenshot"}],
            ),
        ),
    ),
    "computer output": (
        {
            "type": "computer_call_output",
            "call_id": "call_1",
            "output": {"type": "computer_screenshot", "image_url": PNG},
        },
        "tool",
        "",
        (
            Part(
                RESULT,
                name="computer",
                call_id="call_1",
                parts=(Part(IMAGE, media_type="image/png", size=5),),
            ),
        ),
    ),
}
