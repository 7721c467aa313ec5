"""Conversion of the Responses API items other than messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from django_agent_sessions.content.dialects.arguments import parse_json_container
from django_agent_sessions.content.dialects.parts import Part, PartKind, result_part, text_of

from . import blocks, results
from .blocks import Item, Parts

_STATUSES = {"completed": "success", "failed": "error"}


class ItemReader(NamedTuple):
    """Reader for one type of item."""

    role: str
    """The neutral role of the item's author."""

    read: Callable[[Item], Parts | None]
    """Returns all parts of an item, or None if the item is invalid."""

    contents: Callable[[Item], Iterable[Part]] = results.no_contents
    """Returns only the contents of a result, for the text column; parses no arguments."""


def find_reader(item: Item) -> ItemReader | None:
    """Return the reader for an item's type, or None if the type is unknown."""
    kind = item.get("type")
    return _ITEMS.get(kind) if isinstance(kind, str) else None


def _not_content(item: Item) -> Parts | None:
    return None


def _call_id(item: Item) -> str:
    return text_of(item.get("call_id")) or text_of(item.get("id"))


def _status(item: Item) -> str:
    return _STATUSES.get(text_of(item.get("status")), "")


def _read_reasoning(item: Item) -> Parts | None:
    found = [
        *blocks.read_each(item.get("summary"), _reasoning_parts),
        *blocks.read_each(item.get("content"), _reasoning_parts),
    ]
    # Reasoning may be encrypted or omitted.
    return tuple(found) or (Part(PartKind.REASONING),)


def _reasoning_parts(block: Item) -> Parts | None:
    part = blocks.reasoning_part(block)
    return None if part is None else (part,)


def _read_function_call(item: Item) -> Parts | None:
    part = blocks.function_part(item, _call_id(item))
    return None if part is None else (part,)


def _read_custom_call(item: Item) -> Parts | None:
    if not isinstance(item.get("name"), str):
        return None
    return (blocks.call_part(item["name"], _call_id(item), item.get("input")),)


def _read_approval_response(item: Item) -> Parts | None:
    return (
        result_part(
            results.approval_reason(item),
            call_id=text_of(item.get("approval_request_id")),
            data=blocks.present_fields(item, "approve"),
        ),
    )


def _read_mcp_call(item: Item) -> Parts | None:
    call = blocks.function_part(item, _call_id(item))
    if call is None:
        return None
    contents = results.mcp_output(item)
    if not contents:
        return (call,)
    status = "error" if item.get("error") is not None else _status(item)
    data = parse_json_container(item.get("output"))
    return call, result_part(
        contents, call_id=call.call_id, name=call.name, status=status, data=data
    )


def _hosted_reader(
    name: str, arguments: Callable[[Item], object], contents: Callable[[Item], Parts]
) -> ItemReader:
    """Return a reader for calls that the API executes: one item has the call and its result."""

    def read(item: Item) -> Parts:
        call_id, status, found = _call_id(item), _status(item), contents(item)
        call = blocks.call_part(name, call_id, arguments(item), status)
        if not found:
            return (call,)
        return call, result_part(found, call_id=call_id, name=name, status=status)

    return ItemReader("assistant", read, contents)


def _call_reader(name: str, arguments: Callable[[Item], object]) -> ItemReader:
    """Return a reader for calls of built-in tools that the API does not execute."""

    def read(item: Item) -> Parts:
        return (blocks.call_part(name, _call_id(item), arguments(item)),)

    return ItemReader("assistant", read)


def _output_reader(
    contents: Callable[[Item], Parts],
    *,
    name: str = "",
    status: Callable[[Item], str] = lambda item: "",
    data: Callable[[Item], object] = lambda item: parse_json_container(item.get("output")),
) -> ItemReader:
    """Return a reader for tool outputs."""

    def read(item: Item) -> Parts:
        return (
            result_part(
                contents(item),
                call_id=_call_id(item),
                name=name or text_of(item.get("name")),
                status=status(item),
                data=data(item),
            ),
        )

    return ItemReader("tool", read, contents)


def _field(key: str) -> Callable[[Item], object]:
    return lambda item: item.get(key)


def _fields(*keys: str) -> Callable[[Item], object]:
    return lambda item: blocks.present_fields(item, *keys)


def _computer_actions(item: Item) -> object:
    # The first version of the tool has one action, the second a list.
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
    "computer_call": _call_reader("computer", _computer_actions),
    "computer_call_output": _output_reader(results.screenshot, name="computer"),
    "local_shell_call": _call_reader("local_shell", _field("action")),
    "local_shell_call_output": _output_reader(results.output, name="local_shell"),
    "shell_call": _call_reader("shell", _field("action")),
    "shell_call_output": _output_reader(results.shell_output, name="shell", status=_exit_status),
    "apply_patch_call": _call_reader("apply_patch", _field("operation")),
    "apply_patch_call_output": _output_reader(results.output, name="apply_patch", status=_status),
    "tool_search_call": _call_reader("tool_search", _field("arguments")),
    "tool_search_output": _output_reader(
        results.no_contents, name="tool_search", data=_field("tools")
    ),
    "program": _call_reader("program", _fields("code")),
    "program_output": _output_reader(
        results.program_result,
        name="program",
        status=_status,
        data=lambda item: parse_json_container(item.get("result")),
    ),
    # Calls that the API executes.
    "web_search_call": _hosted_reader("web_search", _field("action"), results.no_contents),
    "file_search_call": _hosted_reader("file_search", _fields("queries"), results.passages),
    "code_interpreter_call": _hosted_reader(
        "code_interpreter", _fields("code"), results.interpreter_output
    ),
    "image_generation_call": _hosted_reader(
        "image_generation", _fields(*_IMAGE_FIELDS), results.generated_image
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
