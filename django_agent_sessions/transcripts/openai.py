"""Reads what sessions of the OpenAI Agents SDK hold: items of the Responses API, chat messages.

The formats: ``openai.types.responses`` (``ResponseInputItemParam``, ``ResponseOutputItem``),
``openai.types.conversations`` and ``openai.types.chat.ChatCompletionMessageParam``.

Items that are bookkeeping between the SDK and the API (compaction, references, lists of tools,
configuration) are parts of kind unknown, shown as they are. Neither kind of payload carries token
usage, so a summary has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from .arguments import parsed, parsed_container
from .media import Media, base64_size, inline, is_encoded, media_type, referenced
from .parts import (
    EMPTY_SUMMARY,
    Part,
    PartKind,
    Summary,
    neutral_role,
    result_part,
    spoken,
    text_of,
    unknown,
)
from .text import readable, searchable

_Item = dict[str, Any]
_Parts = tuple[Part, ...]

_CONTENT_KEYS = frozenset(
    {"content", "refusal", "tool_calls", "function_call", "audio", "reasoning_content"}
)
_EXTRA_KEYS = frozenset({"refusal", "audio"})
_TEXTS = {
    "input_text": "text",
    "output_text": "text",
    "text": "text",
    "summary_text": "text",
    "refusal": "refusal",
}
_STATUSES = {"completed": "success", "failed": "error"}


def parts(payload: object) -> tuple[Part, ...]:
    """Reads an item or a chat message.

    Args:
        payload: A Responses item, a chat message, or anything else that a session was given.

    Returns:
        The parts, in order. What is not as the format has it is a part of kind unknown.
    """
    if not isinstance(payload, dict):
        return (unknown(payload),)
    if _is_message(payload):
        return tuple(_message(payload))
    reader = _reader(payload)
    found = reader.read(payload) if reader is not None else None
    return (unknown(payload),) if found is None else found


def summary(payload: object) -> Summary:
    """Reads what the neutral columns hold of an item or a chat message.

    Args:
        payload: A Responses item, a chat message, or anything else that a session was given.

    Returns:
        The summary. An item without a role has that of its maker: calls and reasoning are the
        assistant's, outputs the tool's.
    """
    if not isinstance(payload, dict):
        return EMPTY_SUMMARY
    if _is_message(payload):
        text = searchable(_texts(payload))
        return Summary(neutral_role(payload.get("role")), text, None, None, None)
    reader = _reader(payload)
    if reader is None:
        return Summary(neutral_role(payload.get("role")), "", None, None, None)
    text = searchable(readable(reader.contents(payload)))
    return Summary(reader.role, text, None, None, None)


# --- messages --------------------------------------------------------------------------------


def _is_message(payload: _Item) -> bool:
    kind = payload.get("type")
    if kind is None:
        return isinstance(payload.get("role"), str) and not _CONTENT_KEYS.isdisjoint(payload)
    return kind == "message" and not _CONTENT_KEYS.isdisjoint(payload)


def _message(message: _Item) -> Iterator[Part]:
    yield from _reasoned(message)
    spoken = tuple(_spoken(message))
    if "tool_call_id" in message or message.get("role") == "function":
        yield result_part(
            spoken,
            call_id=text_of(message.get("tool_call_id")),
            name=text_of(message.get("name")),
            data=parsed_container(message.get("content")),
        )
    else:
        yield from spoken
    yield from _tool_calls(message)


def _texts(message: _Item) -> Iterator[str]:
    content = message.get("content")
    # Nearly all messages are one text, and making a part of it would cost more than it.
    if isinstance(content, str):
        yield content
    elif isinstance(content, list | tuple):
        for block in content:
            if isinstance(block, dict) and block.get("type") in ("output_text", "input_text"):
                yield text_of(block.get("text"))
            else:
                yield from readable(_block(block))
    if not _EXTRA_KEYS.isdisjoint(message):
        yield from readable(_extras(message))


def _spoken(message: _Item) -> Iterator[Part]:
    yield from _contents(message.get("content"))
    yield from _extras(message)


def _extras(message: _Item) -> Iterator[Part]:
    refusal = message.get("refusal")
    if refusal is not None:
        yield _text(refusal) if isinstance(refusal, str) else unknown({"refusal": refusal})
    audio = message.get("audio")
    if audio is not None:
        yield _spoken_audio(audio)


def _reasoned(message: _Item) -> Iterator[Part]:
    # Not OpenAI's own, but of models that others serve in the same format.
    reasoning = message.get("reasoning_content")
    if isinstance(reasoning, str):
        yield Part(PartKind.REASONING, text=reasoning)
    elif reasoning is not None:
        yield unknown({"reasoning_content": reasoning})


def _tool_calls(message: _Item) -> Iterator[Part]:
    calls = message.get("tool_calls")
    if isinstance(calls, list | tuple):
        for call in calls:
            yield _chat_call(call)
    elif calls is not None:
        yield unknown({"tool_calls": calls})
    function = message.get("function_call")
    if function is not None:
        yield _function(function, "") or unknown({"function_call": function})


def _chat_call(call: object) -> Part:
    if not isinstance(call, dict):
        return unknown(call)
    call_id = text_of(call.get("id"))
    custom = call.get("custom")
    if isinstance(custom, dict) and isinstance(custom.get("name"), str):
        return _call(custom["name"], call_id, custom.get("input"))
    return _function(call.get("function"), call_id) or unknown(call)


def _function(function: object, call_id: str) -> Part | None:
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        return None
    return _call(function["name"], call_id, parsed(function.get("arguments")))


def _spoken_audio(audio: object) -> Part:
    if not isinstance(audio, dict):
        return unknown({"audio": audio})
    data = audio.get("data")
    return Part(
        PartKind.DOCUMENT,
        text=text_of(audio.get("transcript")),
        data=_only(audio, "id"),
        media_type=media_type("audio", audio.get("format")),
        size=base64_size(data) if is_encoded(data) else None,
    )


# --- blocks of content -----------------------------------------------------------------------


def _contents(content: object) -> tuple[Part, ...]:
    """Reads a text, or a list of blocks."""
    if content is None:
        return ()
    if (said := spoken(PartKind.TEXT, content)) is not None:
        return (said,)
    if isinstance(content, list | tuple):
        return tuple(part for block in content for part in _block(block))
    return (unknown(content),)


def _block(block: object) -> tuple[Part, ...]:
    kind = block.get("type") if isinstance(block, dict) else None
    if not isinstance(block, dict) or not isinstance(kind, str):
        return (unknown(block),)
    key = _TEXTS.get(kind)
    if key is not None and isinstance(block.get(key), str):
        return (_text(block[key], citations=block.get("annotations")),)
    reader = _BLOCKS.get(kind)
    found = reader(block) if reader is not None else None
    if key is not None:
        found = spoken(PartKind.TEXT, block.get(key))
    return (found if found is not None else unknown(block),)


def _text(text: str, *, citations: object = None) -> Part:
    return Part(PartKind.TEXT, text=text, data=citations or None)


def _reasoning_text(block: _Item) -> Part | None:
    text = block.get("text")
    return Part(PartKind.REASONING, text=text) if isinstance(text, str) else None


def _image(block: _Item) -> Part | None:
    # The Responses API has the URL here, the chat API one level deeper.
    reference = block.get("image_url")
    if isinstance(reference, dict):
        reference = reference.get("url")
    if is_encoded(reference):
        return _media(PartKind.IMAGE, referenced(reference), data=_only(block, "file_id"))
    if isinstance(block.get("file_id"), str):
        return Part(PartKind.IMAGE, data=_only(block, "file_id"))
    return None


def _file(block: _Item) -> Part | None:
    # The Responses API has the fields here, the chat API one level deeper.
    fields = block.get("file", block)
    if not isinstance(fields, dict):
        return None
    encoded, url = fields.get("file_data"), fields.get("file_url")
    media = Media()
    if is_encoded(encoded):
        media = inline(encoded)
    elif is_encoded(url):
        media = referenced(url)
    elif not isinstance(fields.get("file_id"), str):
        return None
    return _media(
        PartKind.DOCUMENT,
        media,
        name=text_of(fields.get("filename")),
        data=_only(fields, "file_id"),
    )


def _audio(block: _Item) -> Part | None:
    audio = block.get("input_audio")
    if not isinstance(audio, dict) or not is_encoded(audio.get("data")):
        return None
    media = inline(audio["data"])
    told = media_type("audio", audio.get("format")) or media.media_type
    return _media(PartKind.DOCUMENT, media._replace(media_type=told))


def _media(kind: PartKind, media: Media, *, name: str = "", data: object = None) -> Part:
    return Part(
        kind, name=name, data=data, media_type=media.media_type, size=media.size, url=media.url
    )


def _only(fields: _Item, *keys: str) -> dict[str, Any] | None:
    """Keeps the fields that are there; ``None`` if none is."""
    return {key: fields[key] for key in keys if fields.get(key) is not None} or None


_BLOCKS: dict[str, Callable[[_Item], Part | None]] = {
    "reasoning_text": _reasoning_text,
    "input_image": _image,
    "image_url": _image,
    "computer_screenshot": _image,
    "input_file": _file,
    "file": _file,
    "input_audio": _audio,
}


# --- items: the contents of results ----------------------------------------------------------


def _nothing(item: _Item) -> _Parts:
    return ()


def _output(item: _Item) -> _Parts:
    return _contents(item.get("output"))


def _screenshot(item: _Item) -> _Parts:
    return _block(item["output"]) if item.get("output") is not None else ()


def _program_result(item: _Item) -> _Parts:
    return _contents(item.get("result"))


def _reason(item: _Item) -> _Parts:
    return _contents(item.get("reason"))


def _mcp_output(item: _Item) -> _Parts:
    error = item.get("error")
    if error is None:
        return _output(item)
    words = error.get("message") if isinstance(error, dict) else error
    if isinstance(words, str):
        return (*_output(item), _text(words))
    return (*_output(item), *_mcp_error_contents(error))


def _mcp_error_contents(error: object) -> _Parts:
    """Reads the error of a tool, whose content is that of MCP: ``[{"type": "text", …}, …]``."""
    content = error.get("content") if isinstance(error, dict) else None
    return _contents(content) if content is not None else (unknown(error),)


def _passages(item: _Item) -> _Parts:
    return _each(item.get("results"), _passage)


def _passage(result: _Item) -> _Parts | None:
    if not isinstance(result.get("text"), str):
        return None
    return (
        Part(
            PartKind.DOCUMENT,
            text=result["text"],
            name=text_of(result.get("filename")),
            data=_only(result, "file_id", "score", "attributes"),
        ),
    )


def _interpreted(item: _Item) -> _Parts:
    return _each(item.get("outputs"), _interpreter_output)


def _interpreter_output(output: _Item) -> _Parts | None:
    if isinstance(output.get("logs"), str):
        return (_text(output["logs"]),)
    if is_encoded(output.get("url")):
        return (_media(PartKind.IMAGE, referenced(output["url"])),)
    return None


def _shell_output(item: _Item) -> _Parts:
    output = item.get("output")
    # Some tools answer with one text, as the local shell does.
    return _contents(output) if isinstance(output, str) else _each(output, _shell_chunk)


def _shell_chunk(chunk: _Item) -> _Parts | None:
    streams = [chunk.get("stdout"), chunk.get("stderr")]
    if not all(isinstance(stream, str) for stream in streams):
        return None
    return tuple(_text(stream) for stream in streams if stream)


def _drawn(item: _Item) -> _Parts:
    result, error = item.get("result"), item.get("error")
    found: list[Part] = []
    if is_encoded(result):
        told = media_type("image", item.get("output_format"))
        found.append(Part(PartKind.IMAGE, media_type=told, size=base64_size(result)))
    elif result is not None:
        found.append(unknown({"result": result}))
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        found.append(_text(error["message"]))
    elif error is not None:
        found.append(unknown({"error": error}))
    return tuple(found)


def _each(values: object, read: Callable[[_Item], _Parts | None]) -> _Parts:
    if values is None:
        return ()
    if not isinstance(values, list | tuple):
        return (unknown(values),)
    found: list[Part] = []
    for value in values:
        parts_of_value = read(value) if isinstance(value, dict) else None
        found.extend((unknown(value),) if parts_of_value is None else parts_of_value)
    return tuple(found)


# --- items: whole ----------------------------------------------------------------------------


class _ItemReader(NamedTuple):
    """How one type of item is read."""

    role: str
    """The neutral role of what made the item."""

    read: Callable[[_Item], _Parts | None]
    """Reads it whole; ``None`` if it is not as the format has it."""

    contents: Callable[[_Item], Iterable[Part]] = _nothing
    """Reads only what a result holds, parsing no arguments: the text column needs no more."""


def _reader(item: _Item) -> _ItemReader | None:
    kind = item.get("type")
    return _ITEMS.get(kind) if isinstance(kind, str) else None


def _not_content(item: _Item) -> _Parts | None:
    return None


def _call(name: str, call_id: str, arguments: object, status: str = "") -> Part:
    return Part(PartKind.TOOL_CALL, name=name, call_id=call_id, status=status, data=arguments)


def _call_id(item: _Item) -> str:
    return text_of(item.get("call_id")) or text_of(item.get("id"))


def _status(item: _Item) -> str:
    return _STATUSES.get(text_of(item.get("status")), "")


def _read_reasoning(item: _Item) -> _Parts | None:
    found = [
        *_each(item.get("summary"), _reasoning_parts),
        *_each(item.get("content"), _reasoning_parts),
    ]
    # Reasoning may be encrypted, or not shown at all.
    return tuple(found) or (Part(PartKind.REASONING),)


def _reasoning_parts(block: _Item) -> _Parts | None:
    part = _reasoning_text(block)
    return None if part is None else (part,)


def _read_function_call(item: _Item) -> _Parts | None:
    part = _function(item, _call_id(item))
    return None if part is None else (part,)


def _read_custom_call(item: _Item) -> _Parts | None:
    if not isinstance(item.get("name"), str):
        return None
    return (_call(item["name"], _call_id(item), item.get("input")),)


def _read_approval_response(item: _Item) -> _Parts | None:
    return (
        result_part(
            _reason(item),
            call_id=text_of(item.get("approval_request_id")),
            data=_only(item, "approve"),
        ),
    )


def _read_mcp_call(item: _Item) -> _Parts | None:
    call = _function(item, _call_id(item))
    if call is None:
        return None
    contents = _mcp_output(item)
    if not contents:
        return (call,)
    status = "error" if item.get("error") is not None else _status(item)
    data = parsed_container(item.get("output"))
    return call, result_part(
        contents, call_id=call.call_id, name=call.name, status=status, data=data
    )


def _hosted(
    name: str, arguments: Callable[[_Item], object], contents: Callable[[_Item], _Parts]
) -> _ItemReader:
    """Makes the reader of an item that the API answers itself: call and result in one."""

    def read(item: _Item) -> _Parts:
        call_id, status, found = _call_id(item), _status(item), contents(item)
        call = _call(name, call_id, arguments(item), status)
        if not found:
            return (call,)
        return call, result_part(found, call_id=call_id, name=name, status=status)

    return _ItemReader("assistant", read, contents)


def _builtin(name: str, arguments: Callable[[_Item], object]) -> _ItemReader:
    """Makes the reader of the call of a built-in tool that somebody else answers."""

    def read(item: _Item) -> _Parts:
        return (_call(name, _call_id(item), arguments(item)),)

    return _ItemReader("assistant", read)


def _answer(
    contents: Callable[[_Item], _Parts],
    *,
    name: str = "",
    status: Callable[[_Item], str] = lambda item: "",
    data: Callable[[_Item], object] = lambda item: parsed_container(item.get("output")),
) -> _ItemReader:
    """Makes the reader of a tool's output."""

    def read(item: _Item) -> _Parts:
        return (
            result_part(
                contents(item),
                call_id=_call_id(item),
                name=name or text_of(item.get("name")),
                status=status(item),
                data=data(item),
            ),
        )

    return _ItemReader("tool", read, contents)


def _field(key: str) -> Callable[[_Item], object]:
    return lambda item: item.get(key)


def _fields(*keys: str) -> Callable[[_Item], object]:
    return lambda item: _only(item, *keys)


def _computer_actions(item: _Item) -> object:
    # One action in the first version of the tool, several at once in the second.
    return item["actions"] if item.get("actions") is not None else item.get("action")


def _exit_status(item: _Item) -> str:
    """A shell's result is an error if any command timed out or did not exit with 0."""
    output = item.get("output")
    chunks = output if isinstance(output, list | tuple) else ()
    outcomes = [chunk.get("outcome") for chunk in chunks if isinstance(chunk, dict)]
    codes = [outcome.get("exit_code") for outcome in outcomes if isinstance(outcome, dict)]
    if not codes:
        return ""
    return "success" if all(code == 0 for code in codes) else "error"


_DRAWING = ("revised_prompt", "action", "size", "quality", "background", "output_format")

_ITEMS: dict[str, _ItemReader] = {
    "reasoning": _ItemReader("assistant", _read_reasoning),
    # Calls that the application's own tools answer, and the answers.
    "function_call": _ItemReader("assistant", _read_function_call),
    "function_call_output": _answer(_output),
    "custom_tool_call": _ItemReader("assistant", _read_custom_call),
    "custom_tool_call_output": _answer(_output),
    "computer_call": _builtin("computer", _computer_actions),
    "computer_call_output": _answer(_screenshot, name="computer"),
    "local_shell_call": _builtin("local_shell", _field("action")),
    "local_shell_call_output": _answer(_output, name="local_shell"),
    "shell_call": _builtin("shell", _field("action")),
    "shell_call_output": _answer(_shell_output, name="shell", status=_exit_status),
    "apply_patch_call": _builtin("apply_patch", _field("operation")),
    "apply_patch_call_output": _answer(_output, name="apply_patch", status=_status),
    "tool_search_call": _builtin("tool_search", _field("arguments")),
    "tool_search_output": _answer(_nothing, name="tool_search", data=_field("tools")),
    "program": _builtin("program", _fields("code")),
    "program_output": _answer(
        _program_result,
        name="program",
        status=_status,
        data=lambda item: parsed_container(item.get("result")),
    ),
    # Calls that the API answers itself.
    "web_search_call": _hosted("web_search", _field("action"), _nothing),
    "file_search_call": _hosted("file_search", _fields("queries"), _passages),
    "code_interpreter_call": _hosted("code_interpreter", _fields("code"), _interpreted),
    "image_generation_call": _hosted("image_generation", _fields(*_DRAWING), _drawn),
    "mcp_call": _ItemReader("assistant", _read_mcp_call, _mcp_output),
    # Somebody is asked whether a tool may run, and answers.
    "mcp_approval_request": _ItemReader("assistant", _read_function_call),
    "mcp_approval_response": _ItemReader("user", _read_approval_response, _reason),
    # Bookkeeping, of which only the maker is known.
    "mcp_list_tools": _ItemReader("assistant", _not_content),
    "compaction": _ItemReader("assistant", _not_content),
    "additional_tools": _ItemReader("system", _not_content),
    "configuration_update": _ItemReader("system", _not_content),
    "compaction_trigger": _ItemReader("", _not_content),
    "item_reference": _ItemReader("", _not_content),
}
"""Every type in ``ResponseInputItemParam`` and ``ResponseOutputItem`` that is not a message."""
