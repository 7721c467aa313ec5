"""OpenAI items and chat messages. The examples are checked against the SDK's own types."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from openai.types.chat import ChatCompletionMessageParam
from openai.types.responses import ResponseInputItemParam, ResponseOutputItem
from pydantic import TypeAdapter
from typing_extensions import get_type_hints

from django_agent_sessions.transcripts import OPENAI, Part, PartKind, Summary, parts, summary

TEXT, REASONING, UNKNOWN = PartKind.TEXT, PartKind.REASONING, PartKind.UNKNOWN
CALL, RESULT = PartKind.TOOL_CALL, PartKind.TOOL_RESULT
IMAGE, DOCUMENT = PartKind.IMAGE, PartKind.DOCUMENT

BASE64 = base64.b64encode(b"12345").decode()
PNG = f"data:image/png;base64,{BASE64}"
FILE = {"file_id": "file-1"}
ANNOTATION = {
    "type": "url_citation",
    "url": "https://example.org/",
    "title": "Milk",
    "start_index": 0,
    "end_index": 4,
}
TOOL = {"type": "function", "name": "weather", "parameters": {}, "strict": True}


def text(words: str) -> Part:
    return Part(TEXT, text=words)


def said(role: str, *blocks: dict[str, Any]) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": list(blocks)}


# name: (item, role, text, parts)
Example = tuple[dict[str, Any], str, str, tuple[Part, ...]]

ITEMS: dict[str, Example] = {
    "message of one text": (
        {"role": "user", "content": "Hello"},
        "user",
        "Hello",
        (text("Hello"),),
    ),
    "message of a developer": (
        said("developer", {"type": "input_text", "text": "Be kind."}),
        "system",
        "Be kind.",
        (text("Be kind."),),
    ),
    "message of the model": (
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [
                {"type": "output_text", "text": "White.", "annotations": [ANNOTATION]},
                {"type": "output_text", "text": "Done.", "annotations": []},
                {"type": "refusal", "refusal": "I will not."},
            ],
        },
        "assistant",
        "White.\nDone.\nI will not.",
        (Part(TEXT, text="White.", data=[ANNOTATION]), text("Done."), text("I will not.")),
    ),
    "message with images": (
        said(
            "user",
            {"type": "input_image", "detail": "auto", "image_url": PNG},
            {"type": "input_image", "detail": "auto", "image_url": "https://example.org/a.png"},
            {"type": "input_image", "detail": "auto", "file_id": "file-1"},
        ),
        "user",
        "",
        (
            Part(IMAGE, media_type="image/png", size=5),
            Part(IMAGE, url="https://example.org/a.png"),
            Part(IMAGE, data=FILE),
        ),
    ),
    "message with files": (
        said(
            "user",
            {
                "type": "input_file",
                "filename": "a.pdf",
                "file_data": f"data:application/pdf;base64,{BASE64}",
            },
            {"type": "input_file", "filename": "b.pdf", "file_data": BASE64},
            {"type": "input_file", "file_url": "https://example.org/c.pdf"},
            {"type": "input_file", "file_id": "file-1"},
        ),
        "user",
        "",
        (
            Part(DOCUMENT, name="a.pdf", media_type="application/pdf", size=5),
            Part(DOCUMENT, name="b.pdf", size=5),
            Part(DOCUMENT, url="https://example.org/c.pdf"),
            Part(DOCUMENT, data=FILE),
        ),
    ),
    "reasoning": (
        {
            "id": "rs_1",
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "In short."}],
            "content": [{"type": "reasoning_text", "text": "At length."}],
            "encrypted_content": "gAAAA",
        },
        "assistant",
        "",
        (Part(REASONING, text="In short."), Part(REASONING, text="At length.")),
    ),
    "reasoning that is only encrypted": (
        {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAAA"},
        "assistant",
        "",
        (Part(REASONING),),
    ),
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
    "web search": (
        {
            "id": "ws_1",
            "type": "web_search_call",
            "status": "completed",
            "action": {"type": "search", "query": "milk"},
        },
        "assistant",
        "",
        (
            Part(
                CALL,
                name="web_search",
                call_id="ws_1",
                status="success",
                data={"type": "search", "query": "milk"},
            ),
        ),
    ),
    "file search": (
        {
            "id": "fs_1",
            "type": "file_search_call",
            "status": "completed",
            "queries": ["milk"],
            "results": [
                {"file_id": "file-1", "filename": "a.md", "score": 0.5, "text": "Milk is white."}
            ],
        },
        "assistant",
        "Milk is white.",
        (
            Part(
                CALL,
                name="file_search",
                call_id="fs_1",
                status="success",
                data={"queries": ["milk"]},
            ),
            Part(
                RESULT,
                text="Milk is white.",
                name="file_search",
                call_id="fs_1",
                status="success",
                parts=(
                    Part(
                        DOCUMENT,
                        text="Milk is white.",
                        name="a.md",
                        data={"file_id": "file-1", "score": 0.5},
                    ),
                ),
            ),
        ),
    ),
    "code interpreter": (
        {
            "id": "ci_1",
            "type": "code_interpreter_call",
            "status": "failed",
            "code": "1/0",
            "container_id": "c1",
            "outputs": [
                {"type": "logs", "logs": "ZeroDivisionError"},
                {"type": "image", "url": "https://example.org/plot.png"},
            ],
        },
        "assistant",
        "ZeroDivisionError",
        (
            Part(
                CALL, name="code_interpreter", call_id="ci_1", status="error", data={"code": "1/0"}
            ),
            Part(
                RESULT,
                text="ZeroDivisionError",
                name="code_interpreter",
                call_id="ci_1",
                status="error",
                parts=(
                    text("ZeroDivisionError"),
                    Part(IMAGE, url="https://example.org/plot.png"),
                ),
            ),
        ),
    ),
    "code interpreter that is not done": (
        {
            "id": "ci_1",
            "type": "code_interpreter_call",
            "status": "interpreting",
            "code": None,
            "container_id": "c1",
            "outputs": None,
        },
        "assistant",
        "",
        (Part(CALL, name="code_interpreter", call_id="ci_1"),),
    ),
    "image generation": (
        {
            "id": "ig_1",
            "type": "image_generation_call",
            "status": "completed",
            "result": BASE64,
            "output_format": "webp",
            "revised_prompt": "A cow.",
        },
        "assistant",
        "",
        (
            Part(
                CALL,
                name="image_generation",
                call_id="ig_1",
                status="success",
                data={"revised_prompt": "A cow.", "output_format": "webp"},
            ),
            Part(
                RESULT,
                name="image_generation",
                call_id="ig_1",
                status="success",
                parts=(Part(IMAGE, media_type="image/webp", size=5),),
            ),
        ),
    ),
    "image generation that was refused": (
        {
            "id": "ig_1",
            "type": "image_generation_call",
            "status": "failed",
            "result": None,
            "error": {"code": None, "message": "No.", "param": None, "type": "moderation_blocked"},
        },
        "assistant",
        "No.",
        (
            Part(CALL, name="image_generation", call_id="ig_1", status="error"),
            Part(
                RESULT,
                text="No.",
                name="image_generation",
                call_id="ig_1",
                status="error",
                parts=(text("No."),),
            ),
        ),
    ),
    "local shell call": (
        {
            "id": "ls_1",
            "type": "local_shell_call",
            "call_id": "call_1",
            "status": "completed",
            "action": {"type": "exec", "command": ["ls"], "env": {}},
        },
        "assistant",
        "",
        (
            Part(
                CALL,
                name="local_shell",
                call_id="call_1",
                data={"type": "exec", "command": ["ls"], "env": {}},
            ),
        ),
    ),
    "local shell output": (
        {"id": "call_1", "type": "local_shell_call_output", "output": "a.txt"},
        "tool",
        "a.txt",
        (Part(RESULT, text="a.txt", name="local_shell", call_id="call_1", parts=(text("a.txt"),)),),
    ),
    "shell call": (
        {"type": "shell_call", "call_id": "call_1", "action": {"commands": ["ls"]}},
        "assistant",
        "",
        (Part(CALL, name="shell", call_id="call_1", data={"commands": ["ls"]}),),
    ),
    "shell output": (
        {
            "type": "shell_call_output",
            "call_id": "call_1",
            "output": [
                {
                    "stdout": "a.txt",
                    "stderr": "careful",
                    "outcome": {"type": "exit", "exit_code": 0},
                },
            ],
        },
        "tool",
        "a.txt\ncareful",
        (
            Part(
                RESULT,
                text="a.txt\ncareful",
                name="shell",
                call_id="call_1",
                status="success",
                parts=(text("a.txt"), text("careful")),
            ),
        ),
    ),
    "shell output of a command that hung": (
        {
            "type": "shell_call_output",
            "call_id": "call_1",
            "output": [
                {"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}},
                {"stdout": "", "stderr": "", "outcome": {"type": "timeout"}},
            ],
        },
        "tool",
        "a",
        (
            Part(
                RESULT,
                text="a",
                name="shell",
                call_id="call_1",
                status="error",
                parts=(text("a"),),
            ),
        ),
    ),
    "apply patch call": (
        {
            "type": "apply_patch_call",
            "call_id": "call_1",
            "status": "completed",
            "operation": {"type": "delete_file", "path": "a.txt"},
        },
        "assistant",
        "",
        (
            Part(
                CALL,
                name="apply_patch",
                call_id="call_1",
                data={"type": "delete_file", "path": "a.txt"},
            ),
        ),
    ),
    "apply patch output": (
        {
            "type": "apply_patch_call_output",
            "call_id": "call_1",
            "status": "failed",
            "output": "no such file",
        },
        "tool",
        "no such file",
        (
            Part(
                RESULT,
                text="no such file",
                name="apply_patch",
                call_id="call_1",
                status="error",
                parts=(text("no such file"),),
            ),
        ),
    ),
    "tool search call": (
        {"type": "tool_search_call", "call_id": "call_1", "arguments": {"goal": "weather"}},
        "assistant",
        "",
        (Part(CALL, name="tool_search", call_id="call_1", data={"goal": "weather"}),),
    ),
    "tool search output": (
        {"type": "tool_search_output", "call_id": "call_1", "tools": [TOOL]},
        "tool",
        "",
        (Part(RESULT, name="tool_search", call_id="call_1", data=[TOOL]),),
    ),
    "program": (
        {
            "id": "p_1",
            "type": "program",
            "call_id": "call_1",
            "code": "1+1",
            "fingerprint": "f",
        },
        "assistant",
        "",
        (Part(CALL, name="program", call_id="call_1", data={"code": "1+1"}),),
    ),
    "program output": (
        {
            "id": "po_1",
            "type": "program_output",
            "call_id": "call_1",
            "result": "2",
            "status": "completed",
        },
        "tool",
        "2",
        (
            Part(
                RESULT,
                text="2",
                name="program",
                call_id="call_1",
                status="success",
                parts=(text("2"),),
            ),
        ),
    ),
    "MCP call": (
        {
            "id": "mcp_1",
            "type": "mcp_call",
            "server_label": "wiki",
            "name": "look_up",
            "arguments": '{"word": "milk"}',
            "output": "[1]",
            "status": "completed",
        },
        "assistant",
        "[1]",
        (
            Part(CALL, name="look_up", call_id="mcp_1", data={"word": "milk"}),
            Part(
                RESULT,
                text="[1]",
                name="look_up",
                call_id="mcp_1",
                status="success",
                data=[1],
                parts=(text("[1]"),),
            ),
        ),
    ),
    "MCP call that the server refused": (
        {
            "id": "mcp_1",
            "type": "mcp_call",
            "server_label": "wiki",
            "name": "look_up",
            "arguments": "{}",
            "error": {"type": "http_error", "code": 502, "message": "Bad gateway"},
        },
        "assistant",
        "Bad gateway",
        (
            Part(CALL, name="look_up", call_id="mcp_1", data={}),
            Part(
                RESULT,
                text="Bad gateway",
                name="look_up",
                call_id="mcp_1",
                status="error",
                parts=(text("Bad gateway"),),
            ),
        ),
    ),
    "MCP call whose tool failed": (
        {
            "id": "mcp_1",
            "type": "mcp_call",
            "server_label": "wiki",
            "name": "look_up",
            "arguments": "{}",
            "error": {
                "type": "mcp_tool_execution_error",
                "content": [{"type": "text", "text": "No such word"}],
            },
        },
        "assistant",
        "No such word",
        (
            Part(CALL, name="look_up", call_id="mcp_1", data={}),
            Part(
                RESULT,
                text="No such word",
                name="look_up",
                call_id="mcp_1",
                status="error",
                parts=(text("No such word"),),
            ),
        ),
    ),
    "MCP call that is not done": (
        {
            "id": "mcp_1",
            "type": "mcp_call",
            "server_label": "wiki",
            "name": "look_up",
            "arguments": "{}",
            "status": "calling",
        },
        "assistant",
        "",
        (Part(CALL, name="look_up", call_id="mcp_1", data={}),),
    ),
    "MCP approval request": (
        {
            "id": "mcpr_1",
            "type": "mcp_approval_request",
            "server_label": "wiki",
            "name": "erase",
            "arguments": "{}",
        },
        "assistant",
        "",
        (Part(CALL, name="erase", call_id="mcpr_1", data={}),),
    ),
    "MCP approval response": (
        {
            "type": "mcp_approval_response",
            "approval_request_id": "mcpr_1",
            "approve": False,
            "reason": "Too risky",
        },
        "user",
        "Too risky",
        (
            Part(
                RESULT,
                text="Too risky",
                call_id="mcpr_1",
                data={"approve": False},
                parts=(text("Too risky"),),
            ),
        ),
    ),
}

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


def with_ids(examples: dict[str, Any]) -> dict[str, Any]:
    return {"argvalues": list(examples.values()), "ids": list(examples)}


@pytest.mark.parametrize(("item", "role", "words", "expected"), **with_ids(ITEMS))
def test_every_item_of_the_responses_api_is_read(item, role, words, expected):
    TypeAdapter(ResponseInputItemParam).validate_python(item)
    assert parts(OPENAI, item) == expected
    assert summary(OPENAI, item) == Summary(role, words, None, None, None)


@pytest.mark.parametrize(("item", "role", "words", "expected"), **with_ids(CHAT_MESSAGES))
def test_every_chat_message_is_read(item, role, words, expected):
    TypeAdapter(ChatCompletionMessageParam).validate_python(item)
    assert parts(OPENAI, item) == expected
    assert summary(OPENAI, item) == Summary(role, words, None, None, None)


@pytest.mark.parametrize(("item", "role", "words", "expected"), **with_ids(BEYOND_THE_PARAMS))
def test_what_apis_answer_and_sessions_hold_is_read_too(item, role, words, expected):
    assert parts(OPENAI, item) == expected
    assert summary(OPENAI, item) == Summary(role, words, None, None, None)


@pytest.mark.parametrize(("item", "role"), **with_ids(BOOKKEEPING))
def test_bookkeeping_is_shown_as_it_is(item, role):
    TypeAdapter(ResponseInputItemParam).validate_python(item)
    assert parts(OPENAI, item) == (Part(UNKNOWN, data=item),)
    assert summary(OPENAI, item) == Summary(role, "", None, None, None)


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
    examples = [example[0] for example in ITEMS.values()]
    examples += [example[0] for example in BOOKKEEPING.values()]
    assert {item["type"] for item in examples if "type" in item} == wanted


@pytest.mark.parametrize("block", ODD_BLOCKS, ids=repr)
def test_an_odd_block_is_kept_as_unknown_beside_its_neighbours(block):
    before, after = {"type": "input_text", "text": "a"}, {"type": "text", "text": "b"}
    message = said("user", before, block, after)
    assert parts(OPENAI, message) == (text("a"), Part(UNKNOWN, data=block), text("b"))
    assert summary(OPENAI, message).text == "a\nb"


@pytest.mark.parametrize("item", ODD_ITEMS, ids=repr)
def test_an_odd_item_is_one_unknown_part(item):
    assert parts(OPENAI, item) == (Part(UNKNOWN, data=item),)


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
    assert parts(OPENAI, {"role": "assistant", **message}) == expected


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
    result = parts(OPENAI, item)[-1]
    assert result.kind is RESULT
    assert result.call_id == "c"
    assert Part(UNKNOWN, data=unread) in result.parts


def test_odd_reasoning_is_kept():
    item = {"type": "reasoning", "summary": ["Hm.", {"text": 1}], "content": 5}
    assert parts(OPENAI, item) == tuple(Part(UNKNOWN, data=odd) for odd in ("Hm.", {"text": 1}, 5))


def test_a_screenshot_that_is_missing_leaves_an_empty_result():
    item = {"type": "computer_call_output", "call_id": "c", "output": None}
    assert parts(OPENAI, item) == (Part(RESULT, name="computer", call_id="c"),)
