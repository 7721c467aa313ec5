"""Items of the Responses API that are no messages: calls, results, reasoning, bookkeeping."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from django_agent_sessions.transcripts.arguments import parsed_container
from django_agent_sessions.transcripts.parts import Part, PartKind, result_part, text_of

from . import blocks, calls, results
from .blocks import Item, Parts

_STATUSES = {"completed": "success", "failed": "error"}


class ItemReader(NamedTuple):
    """How one type of item is read."""

    role: str
    """The neutral role of what made the item."""

    read: Callable[[Item], Parts | None]
    """Reads it whole; ``None`` if it is not as the format has it."""

    contents: Callable[[Item], Iterable[Part]] = results.nothing
    """Reads only what a result holds, parsing no arguments: the text column needs no more."""


def reader_of(item: Item) -> ItemReader | None:
    """Finds how an item is read, by its type; ``None`` if nobody knows."""
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
    # Reasoning may be encrypted, or not shown at all.
    return tuple(found) or (Part(PartKind.REASONING),)


def _reasoning_parts(block: Item) -> Parts | None:
    part = blocks.reasoning_part(block)
    return None if part is None else (part,)


def _read_function_call(item: Item) -> Parts | None:
    part = calls.function_part(item, _call_id(item))
    return None if part is None else (part,)


def _read_custom_call(item: Item) -> Parts | None:
    if not isinstance(item.get("name"), str):
        return None
    return (calls.call_part(item["name"], _call_id(item), item.get("input")),)


def _read_approval_response(item: Item) -> Parts | None:
    return (
        result_part(
            results.reason(item),
            call_id=text_of(item.get("approval_request_id")),
            data=blocks.present(item, "approve"),
        ),
    )


def _read_mcp_call(item: Item) -> Parts | None:
    call = calls.function_part(item, _call_id(item))
    if call is None:
        return None
    contents = results.mcp_output(item)
    if not contents:
        return (call,)
    status = "error" if item.get("error") is not None else _status(item)
    data = parsed_container(item.get("output"))
    return call, result_part(
        contents, call_id=call.call_id, name=call.name, status=status, data=data
    )


def _hosted(
    name: str, arguments: Callable[[Item], object], contents: Callable[[Item], Parts]
) -> ItemReader:
    """Makes the reader of an item that the API answers itself: call and result in one."""

    def read(item: Item) -> Parts:
        call_id, status, found = _call_id(item), _status(item), contents(item)
        call = calls.call_part(name, call_id, arguments(item), status)
        if not found:
            return (call,)
        return call, result_part(found, call_id=call_id, name=name, status=status)

    return ItemReader("assistant", read, contents)


def _builtin(name: str, arguments: Callable[[Item], object]) -> ItemReader:
    """Makes the reader of the call of a built-in tool that somebody else answers."""

    def read(item: Item) -> Parts:
        return (calls.call_part(name, _call_id(item), arguments(item)),)

    return ItemReader("assistant", read)


def _answer(
    contents: Callable[[Item], Parts],
    *,
    name: str = "",
    status: Callable[[Item], str] = lambda item: "",
    data: Callable[[Item], object] = lambda item: parsed_container(item.get("output")),
) -> ItemReader:
    """Makes the reader of a tool's output."""

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
    return lambda item: blocks.present(item, *keys)


def _computer_actions(item: Item) -> object:
    # One action in the first version of the tool, several at once in the second.
    return item["actions"] if item.get("actions") is not None else item.get("action")


def _exit_status(item: Item) -> str:
    """A shell's result is an error if any command timed out or did not exit with 0."""
    output = item.get("output")
    chunks = output if isinstance(output, list | tuple) else ()
    outcomes = [chunk.get("outcome") for chunk in chunks if isinstance(chunk, dict)]
    codes = [outcome.get("exit_code") for outcome in outcomes if isinstance(outcome, dict)]
    if not codes:
        return ""
    return "success" if all(code == 0 for code in codes) else "error"


_DRAWING = ("revised_prompt", "action", "size", "quality", "background", "output_format")

_ITEMS: dict[str, ItemReader] = {
    "reasoning": ItemReader("assistant", _read_reasoning),
    # Calls that the application's own tools answer, and the answers.
    "function_call": ItemReader("assistant", _read_function_call),
    "function_call_output": _answer(results.output),
    "custom_tool_call": ItemReader("assistant", _read_custom_call),
    "custom_tool_call_output": _answer(results.output),
    "computer_call": _builtin("computer", _computer_actions),
    "computer_call_output": _answer(results.screenshot, name="computer"),
    "local_shell_call": _builtin("local_shell", _field("action")),
    "local_shell_call_output": _answer(results.output, name="local_shell"),
    "shell_call": _builtin("shell", _field("action")),
    "shell_call_output": _answer(results.shell_output, name="shell", status=_exit_status),
    "apply_patch_call": _builtin("apply_patch", _field("operation")),
    "apply_patch_call_output": _answer(results.output, name="apply_patch", status=_status),
    "tool_search_call": _builtin("tool_search", _field("arguments")),
    "tool_search_output": _answer(results.nothing, name="tool_search", data=_field("tools")),
    "program": _builtin("program", _fields("code")),
    "program_output": _answer(
        results.program_result,
        name="program",
        status=_status,
        data=lambda item: parsed_container(item.get("result")),
    ),
    # Calls that the API answers itself.
    "web_search_call": _hosted("web_search", _field("action"), results.nothing),
    "file_search_call": _hosted("file_search", _fields("queries"), results.passages),
    "code_interpreter_call": _hosted("code_interpreter", _fields("code"), results.interpreted),
    "image_generation_call": _hosted("image_generation", _fields(*_DRAWING), results.drawn),
    "mcp_call": ItemReader("assistant", _read_mcp_call, results.mcp_output),
    # Somebody is asked whether a tool may run, and answers.
    "mcp_approval_request": ItemReader("assistant", _read_function_call),
    "mcp_approval_response": ItemReader("user", _read_approval_response, results.reason),
    # Bookkeeping, of which only the maker is known.
    "mcp_list_tools": ItemReader("assistant", _not_content),
    "compaction": ItemReader("assistant", _not_content),
    "additional_tools": ItemReader("system", _not_content),
    "configuration_update": ItemReader("system", _not_content),
    "compaction_trigger": ItemReader("", _not_content),
    "item_reference": ItemReader("", _not_content),
}
"""Every type in ``ResponseInputItemParam`` and ``ResponseOutputItem`` that is not a message."""
