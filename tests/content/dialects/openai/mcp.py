"""Calls of tools of MCP servers, and what is asked before them."""

from __future__ import annotations

from django_agent_sessions.content.dialects import Part

from .examples import CALL, RESULT, Example, text

MCP: dict[str, Example] = {
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
