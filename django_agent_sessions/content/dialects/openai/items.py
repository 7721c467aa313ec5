"""Conversion of the Responses API items other than messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from django_agent_sessions.content.dialects.arguments import parse_json_container
from django_agent_sessions.content.dialects.base import ToolCallIds, TranscriptBlock, parts_of
from django_agent_sessions.content.dialects.parts import Part, PartKind, result_part, text_of

from . import blocks, results
from .blocks import Blocks, Item, Parts

_STATUSES = {"completed": "success", "failed": "error", "incomplete": "error"}
_CALLS = frozenset(
    {
        "function_call",
        "custom_tool_call",
        "computer_call",
        "local_shell_call",
        "shell_call",
        "apply_patch_call",
    }
)
"""Calls that the application answers. A call that the API answers is one item with its result."""
_RESULTS = frozenset(f"{kind}_output" for kind in _CALLS)


class ItemReader(NamedTuple):
    """Reader for one type of item."""

    role: str
    """The neutral role of the item's author."""

    read: Callable[[Item], Blocks | None]
    """Returns all blocks of an item, or None if the item is invalid."""

    contents: Callable[[Item], Blocks] = results.no_contents
    """Returns only the contents of a result, for the text column; parses no arguments."""


def find_reader(item: Item) -> ItemReader | None:
    """Return the reader for an item's type, or None if the type is unknown."""
    kind = item.get("type")
    return _ITEMS.get(kind) if isinstance(kind, str) else None


def may_have_error(item: Item) -> bool:
    """Return whether a part of an item may have the status ``"error"``."""
    return (
        item.get("status") == "failed"
        or item.get("error") is not None
        or item.get("type") == "shell_call_output"
    )


def item_call_ids(item: Item) -> ToolCallIds:
    """Return the id of an item that is a call or a result."""
    kind, call_id = item.get("type"), _call_id(item)
    if not isinstance(kind, str) or not call_id:
        return ToolCallIds()
    if kind in _CALLS:
        return ToolCallIds(calls=(call_id,))
    return ToolCallIds(results=(call_id,)) if kind in _RESULTS else ToolCallIds()


def _not_content(item: Item) -> Blocks | None:
    return None


def _call_id(item: Item) -> str:
    return text_of(item.get("call_id")) or text_of(item.get("id"))


def _status(item: Item) -> str:
    return _STATUSES.get(text_of(item.get("status")), "")


def _block(item: Item, key: str, part: Part, inner: Blocks = ()) -> TranscriptBlock:
    return TranscriptBlock((key,) if key in item else (), (part,), inner)


def _result(
    item: Item, key: str, contents: Blocks, *, name: str, status: str = "", data: object = None
) -> TranscriptBlock:
    """Return the block of a result; each element of its list is a block of its own."""
    part = result_part(
        parts_of(contents), call_id=_call_id(item), name=name, status=status, data=data
    )
    return _block(item, key, part, tuple(block for block in contents if len(block.path) == 2))


def _read_reasoning(item: Item) -> Blocks:
    found = [
        *blocks.read_each(item, "summary", _reasoning_parts),
        *blocks.read_each(item, "content", _reasoning_parts),
    ]
    # Reasoning may be encrypted or omitted.
    return tuple(found) or (TranscriptBlock((), (Part(PartKind.REASONING),)),)


def _reasoning_parts(block: Item) -> Parts | None:
    part = blocks.reasoning_part(block)
    return None if part is None else (part,)


def _read_function_call(item: Item) -> Blocks | None:
    part = blocks.function_part(item, _call_id(item))
    return None if part is None else (_block(item, "arguments", part),)


def _read_custom_call(item: Item) -> Blocks | None:
    if not isinstance(item.get("name"), str):
        return None
    part = blocks.call_part(item["name"], _call_id(item), item.get("input"))
    return (_block(item, "input", part),)


def _read_approval_response(item: Item) -> Blocks:
    part = result_part(
        parts_of(results.approval_reason(item)),
        call_id=text_of(item.get("approval_request_id")),
        data=blocks.present_fields(item, "approve"),
    )
    return (_block(item, "reason", part),)


def _read_mcp_call(item: Item) -> Blocks | None:
    part = blocks.function_part(item, _call_id(item))
    if part is None:
        return None
    contents, status = results.mcp_output(item), _status(item)
    if not contents:
        return (_block(item, "arguments", replace(part, status=status)),)
    call = _block(item, "arguments", part)
    if item.get("error") is not None:
        status = "error"
    data = parse_json_container(item.get("output"))
    return call, _result(item, "output", contents, name=part.name, status=status, data=data)


def _hosted_reader(
    name: str,
    keys: tuple[str, str],
    arguments: Callable[[Item], object],
    contents: Callable[[Item], Blocks],
) -> ItemReader:
    """Return a reader for calls that the API executes: one item has the call and its result.

    ``keys`` are those of the arguments and of the result.
    """

    def read(item: Item) -> Blocks:
        status, found = _status(item), contents(item)
        part = blocks.call_part(name, _call_id(item), arguments(item), status)
        call = _block(item, keys[0], part)
        if not parts_of(found):
            return (call,)
        return call, _result(item, keys[1], found, name=name, status=status)

    return ItemReader("assistant", read, contents)


def _call_reader(name: str, key: str, arguments: Callable[[Item], object]) -> ItemReader:
    """Return a reader for calls of built-in tools whose results are items of their own."""

    def read(item: Item) -> Blocks:
        # The first version of the computer tool has one action, the second a list.
        found = "actions" if key == "action" and item.get("actions") is not None else key
        status = _status(item) if item.get("execution") == "server" else ""
        part = blocks.call_part(name, _call_id(item), arguments(item), status)
        return (_block(item, found, part),)

    return ItemReader("assistant", read)


def _output_reader(
    contents: Callable[[Item], Blocks],
    *,
    key: str = "output",
    name: str = "",
    status: Callable[[Item], str] = lambda item: "",
    data: Callable[[Item], object] = lambda item: parse_json_container(item.get("output")),
) -> ItemReader:
    """Return a reader for tool outputs."""

    def read(item: Item) -> Blocks:
        found = name or text_of(item.get("name"))
        result = _result(
            item, key, contents(item), name=found, status=status(item), data=data(item)
        )
        return (result,)

    return ItemReader("tool", read, contents)


def _field(key: str) -> Callable[[Item], object]:
    return lambda item: item.get(key)


def _fields(*keys: str) -> Callable[[Item], object]:
    return lambda item: blocks.present_fields(item, *keys)


def _computer_actions(item: Item) -> object:
    return item["actions"] if item.get("actions") is not None else item.get("action")


def _exit_status(item: Item) -> str:
    """Return "error" if any command timed out or did not exit with 0."""
    output = item.get("output")
    chunks = output if isinstance(output, list | tuple) else ()
    outcomes = [chunk.get("outcome") for chunk in chunks if isinstance(chunk, dict)]
    codes = [outcome.get("exit_code") for outcome in outcomes if isinstance(outcome, dict)]
    if not codes:
        return ""
    return "success" if all(code == 0 for code in codes) else "error"


_IMAGE_FIELDS = ("revised_prompt", "action", "size", "quality", "background", "output_format")

_ITEMS: dict[str, ItemReader] = {
    "reasoning": ItemReader("assistant", _read_reasoning),
    # Calls that the application executes, and their outputs.
    "function_call": ItemReader("assistant", _read_function_call),
    "function_call_output": _output_reader(results.output),
    "custom_tool_call": ItemReader("assistant", _read_custom_call),
    "custom_tool_call_output": _output_reader(results.output),
    "computer_call": _call_reader("computer", "action", _computer_actions),
    "computer_call_output": _output_reader(results.screenshot, name="computer"),
    "local_shell_call": _call_reader("local_shell", "action", _field("action")),
    "local_shell_call_output": _output_reader(results.output, name="local_shell"),
    "shell_call": _call_reader("shell", "action", _field("action")),
    "shell_call_output": _output_reader(results.shell_output, name="shell", status=_exit_status),
    "apply_patch_call": _call_reader("apply_patch", "operation", _field("operation")),
    "apply_patch_call_output": _output_reader(results.output, name="apply_patch", status=_status),
    "tool_search_call": _call_reader("tool_search", "arguments", _field("arguments")),
    "tool_search_output": _output_reader(
        results.loaded_tools, key="tools", name="tool_search", data=_field("tools")
    ),
    "program": _call_reader("program", "code", _fields("code")),
    "program_output": _output_reader(
        results.program_result,
        key="result",
        name="program",
        status=_status,
        data=lambda item: parse_json_container(item.get("result")),
    ),
    # Calls that the API executes.
    "web_search_call": _hosted_reader(
        "web_search", ("action", "output"), _field("action"), results.no_contents
    ),
    "file_search_call": _hosted_reader(
        "file_search", ("queries", "results"), _fields("queries"), results.passages
    ),
    "code_interpreter_call": _hosted_reader(
        "code_interpreter", ("code", "outputs"), _fields("code"), results.interpreter_output
    ),
    "image_generation_call": _hosted_reader(
        "image_generation",
        ("revised_prompt", "result"),
        _fields(*_IMAGE_FIELDS),
        results.generated_image,
    ),
    "mcp_call": ItemReader("assistant", _read_mcp_call, results.mcp_output),
    # Requests for a user's approval of a tool call, and the responses.
    "mcp_approval_request": ItemReader("assistant", _read_function_call),
    "mcp_approval_response": ItemReader("user", _read_approval_response, results.approval_reason),
    # Items for the API; only their author's role is used.
    "mcp_list_tools": ItemReader("assistant", _not_content),
    "compaction": ItemReader("assistant", _not_content),
    "additional_tools": ItemReader("system", _not_content),
    "configuration_update": ItemReader("system", _not_content),
    "compaction_trigger": ItemReader("", _not_content),
    "item_reference": ItemReader("", _not_content),
}
"""Every type in ``ResponseInputItemParam`` and ``ResponseOutputItem`` that is not a message."""
