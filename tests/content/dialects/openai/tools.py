"""Calls of the tools that OpenAI defines, and what they returned."""

from __future__ import annotations

from django_agent_sessions.content.dialects import Part

from .examples import BASE64, CALL, DOCUMENT, IMAGE, RESULT, TOOL, Example, text

TOOLS: dict[str, Example] = {
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
}
