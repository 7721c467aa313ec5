"""Conversion of the messages that assistant-ui's client stored.

A payload is ``{"id": …, "parent_id": …, "format": …, "content": {…}}``. The formats are
``ai-sdk/v6``, whose content is a ``UIMessage`` of the AI SDK (``role`` and ``parts``), and
``aui/v0``, assistant-ui's own (``role`` and ``content``). Other formats are converted as far as
they have the same fields.

Clients are untrusted: a summary has no token counts, which a client could invent.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from django_agent_sessions.content.blob_refs import PLACEHOLDER_IMAGE
from django_agent_sessions.content.paths import Path

from .arguments import parse_json, parse_json_container
from .base import Dialect, ToolCallIds, TranscriptBlock, ValueKindOf
from .media import (
    EncodedText,
    Media,
    base64_size,
    is_encoded_text,
    media_from_data,
    media_from_url,
    media_type,
)
from .parts import (
    Part,
    PartKind,
    binary_part,
    neutral_role,
    result_part,
    text_of,
    text_or_media_part,
    unknown_part,
)
from .redaction import Message, Redactor, mask
from .vocabulary import ValueKind, Vocabulary, may_be_word, terms

_LISTS = ("parts", "content")
_STATUSES = {"output-available": "success", "output-error": "error", "output-denied": "error"}
_INPUTS = ("input", "rawInput", "args", "argsText")
_OUTPUTS = ("output", "result", "errorText")
_TOOL_STATES = terms(
    """
    approval-requested approval-responded input-available input-streaming output-available
    output-denied output-error
    """
)
_STATES = _TOOL_STATES | {"streaming", "done"}
_DIGEST = re.compile(r"[0-9a-f]{64}")
_FLAGS = ("providerExecuted", "preliminary", "isError")
_SOURCE_TYPES = ("url", "document")
_TOOL_TYPES = ("dynamic-tool", "tool-call")
_TOOL = "tool-"
_NAMED_TYPES = (_TOOL, "data-")
_DEFAULT_FORMAT = "ai-sdk/v6"


def _named_type(parent: Message, value: object) -> ValueKind | None:
    is_name = isinstance(value, str) and value.startswith(_NAMED_TYPES)
    return ValueKind.NAME if is_name else None


def _tool_state(parent: Message, value: object) -> ValueKind | None:
    is_state = isinstance(value, str) and value in _TOOL_STATES and "toolCallId" in parent
    return ValueKind.WORD if is_state else None


def _tool_output(parent: Message, value: object) -> ValueKind | None:
    return ValueKind.CONTENT if "toolCallId" in parent else None


def _frontend_data(parent: Message, value: object) -> ValueKind | None:
    return ValueKind.CONTENT if str(parent.get("type")).startswith("data") else None


def _message_metadata(parent: Message, value: object) -> ValueKind | None:
    return ValueKind.CONTENT if "parts" in parent else None


class AssistantUI(Dialect):
    """Messages that assistant-ui's client stored."""

    name = "assistant-ui"
    label = "assistant-ui"
    version = 2
    is_client_written = True
    vocabulary: ClassVar[Vocabulary] = Vocabulary(
        enums=terms("format role type"),
        names=terms("toolName"),
        ids=terms("id parent_id sourceId toolCallId"),
        prefixed_ids=terms("id parent_id"),
        tools=terms("input"),
        numbers=terms("height width"),
        free=terms(
            """
            args callProviderMetadata custom input providerMetadata rawInput resultProviderMetadata
            """
        ),
        digests=terms("content_digest"),
        base64=terms("data"),
        keys=terms(
            """
            approval approved argsText attachments audio content contentType data error errorText
            file filename image isError mediaType message metadata mimeType name output parts
            preliminary providerExecuted reason result size source sourceType state text title url
            """
        ),
        words=terms(
            """
            ai-sdk/v6 assistant audio aui/v0 data document dynamic-tool file image reasoning source
            source-document source-url step-start system text tool tool-call url user
            """
        ),
    )

    value_kinds: ClassVar[Mapping[str, ValueKindOf]] = {
        "type": _named_type,
        "state": _tool_state,
        "output": _tool_output,
        "result": _tool_output,
        "data": _frontend_data,
        "metadata": _message_metadata,
    }

    def read(self, payload: object) -> Iterator[TranscriptBlock]:
        content = payload.get("content") if isinstance(payload, dict) else None
        if not isinstance(content, dict):
            yield TranscriptBlock((), (unknown_part(payload),))
            return
        for key in _LISTS:
            value = content.get(key)
            if (text := text_or_media_part(PartKind.TEXT, value)) is not None:
                yield TranscriptBlock(("content", key), (text,))
                return
            if isinstance(value, list | tuple):
                for position, part in enumerate(value):
                    yield from _part(part, ("content", key, position))
                return
        yield TranscriptBlock(("content",), (unknown_part(content),))

    def role(self, payload: Message) -> str:
        content = payload.get("content")
        return neutral_role(content.get("role")) if isinstance(content, dict) else ""

    def call_ids(self, payload: object) -> ToolCallIds:
        """Return none: no model reads these messages, so that no call waits for its result."""
        return ToolCallIds()

    def binaries(self, block: Any) -> Iterator[EncodedText]:
        for key in ("url", "image"):
            value = block.get(key)
            if isinstance(value, str) and value[:5].lower() != "data:":
                continue
            if is_encoded_text(value):
                yield value
        for holder in (block, block.get("audio")):
            if not isinstance(holder, dict) or holder.get("sourceType") is not None:
                continue
            if is_encoded_text(value := holder.get("data")):
                yield value

    def redact(self, message: Message, redactor: Redactor) -> Any:
        """Redact all content, so that the client can still open the thread.

        A browser may have written anything under any key, so that each value is checked.
        """
        content = message.get("content")
        redacted = _links(message, redactor)
        redacted["content"] = _content(content, redactor) if isinstance(content, dict) else {}
        return redacted

    def replace(self, message: Message, redactor: Redactor) -> Any:
        """Return a message at the same position in the thread."""
        content = message.get("content")
        value = content if isinstance(content, dict) else {}
        role = value.get("role")
        return {
            **_links(message, redactor),
            "content": {
                **redactor.ids(value, "id", chosen=True),
                "role": role if redactor.vocabulary.is_word(role) else "assistant",
                "content" if message.get("format") == "aui/v0" else "parts": [_masked_text()],
            },
        }

    def drop_copies(self, before: Message, after: Message, changed: frozenset[str]) -> Message:
        if "text" in changed:
            after.pop("providerMetadata", None)
        return after


def _part(part: Any, path: Path) -> Iterator[TranscriptBlock]:
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(kind, str):
        yield TranscriptBlock(path, (unknown_part(part),))
    elif isinstance(part.get("toolCallId"), str) and _tool_name(part, kind):
        yield from _tool(part, _tool_name(part, kind), path)
    elif kind == "step-start":
        yield TranscriptBlock(path, ())
    else:
        reader = _READERS.get(kind)
        found = reader(part) if reader is not None else None
        yield TranscriptBlock(path, (unknown_part(part) if found is None else found,))


def _tool_name(part: dict[str, Any], kind: str) -> str:
    if kind in ("dynamic-tool", "tool-call"):
        return text_of(part.get("toolName"))
    return kind.removeprefix("tool-") if kind.startswith("tool-") else ""


def _tool(part: dict[str, Any], name: str, path: Path) -> Iterator[TranscriptBlock]:
    call_id = part["toolCallId"]
    input_key = next((key for key in _INPUTS if part.get(key) is not None), "")
    data = parse_json(part["argsText"]) if input_key == "argsText" else part.get(input_key)
    call = Part(PartKind.TOOL_CALL, name=name, call_id=call_id, data=data)
    yield TranscriptBlock((*path, input_key) if input_key else path, (call,))
    for key in _OUTPUTS:
        if part.get(key) is not None:
            yield TranscriptBlock((*path, key), (_result(part, key, call_id, name),))


def _result(part: dict[str, Any], key: str, call_id: str, name: str) -> Part:
    value, state = part[key], part.get("state")
    failed = key == "errorText" or part.get("isError") is True
    status = _STATUSES.get(state, "") if isinstance(state, str) else ""
    text = text_or_media_part(PartKind.TEXT, value) if value else None
    return result_part(
        () if text is None else (text,),
        call_id=call_id,
        name=name,
        status="error" if failed else status,
        data=parse_json_container(value) if text is not None else value,
    )


def _text_reader(kind: PartKind) -> Callable[[dict[str, Any]], Part | None]:
    def read(part: dict[str, Any]) -> Part | None:
        return text_or_media_part(kind, part.get("text"))

    return read


def _file(part: dict[str, Any]) -> Part | None:
    if is_encoded_text(url := part.get("url")):
        found = media_from_url(url)
    elif is_encoded_text(data := part.get("data")):
        kind = part.get("sourceType")
        # The id of a stored file: neither inline nor at a URL.
        by_id = Media() if kind == "id" else media_from_data(data)
        found = media_from_url(data) if kind == "url" else by_id
    else:
        return None
    declared_type = _media_type(part.get("mediaType", part.get("mimeType"))) or found.media_type
    kind = PartKind.IMAGE if declared_type.startswith("image/") else PartKind.DOCUMENT
    return binary_part(kind, found, media_type=declared_type, name=text_of(part.get("filename")))


def _image(part: dict[str, Any]) -> Part | None:
    if not is_encoded_text(image := part.get("image")):
        return None
    name = text_of(part.get("filename"))
    return binary_part(PartKind.IMAGE, media_from_url(image), name=name)


def _audio(part: dict[str, Any]) -> Part | None:
    audio = part.get("audio")
    data = audio.get("data") if isinstance(audio, dict) else None
    if not isinstance(audio, dict) or not is_encoded_text(data):
        return None
    declared_type = media_type("audio", audio.get("format"))
    return Part(PartKind.DOCUMENT, media_type=declared_type, size=base64_size(data))


def _source(part: dict[str, Any]) -> Part | None:
    url: EncodedText = value if is_encoded_text(value := part.get("url")) else ""
    title = text_of(part.get("title"))
    if not url and not title:
        return None
    return binary_part(
        PartKind.DOCUMENT,
        media_from_url(url),
        media_type=_media_type(part.get("mediaType")),
        name=title or text_of(part.get("filename")),
    )


def _media_type(declared_type: object) -> str:
    family, _, file_format = text_of(declared_type).lower().partition("/")
    return media_type(family, file_format) if family and family != "document" else ""


_READERS: dict[str, Callable[[dict[str, Any]], Part | None]] = {
    "text": _text_reader(PartKind.TEXT),
    "reasoning": _text_reader(PartKind.REASONING),
    "file": _file,
    "image": _image,
    "audio": _audio,
    "source": _source,
    "source-url": _source,
    "source-document": _source,
}


# --- redaction -------------------------------------------------------------------------------


def _masked_text() -> Message:
    return {"type": "text", "text": mask()}


def _links(message: Message, redactor: Redactor) -> Message:
    # In this order: queries match the beginning of the serialized message.
    links: Message = redactor.ids(message, "id", chosen=True)
    digest = message.get("content_digest")
    if isinstance(digest, str) and _DIGEST.fullmatch(digest):
        links["content_digest"] = digest
    if "parent_id" in message:
        links["parent_id"] = redactor.ids(message, "parent_id", chosen=True).get("parent_id")
    if "format" in message:
        name = message["format"]
        links["format"] = name if isinstance(name, str) and may_be_word(name) else _DEFAULT_FORMAT
    return links


def _content(content: Message, redactor: Redactor) -> Message:
    redacted: Message = redactor.ids(content, "id", chosen=True)
    if redactor.vocabulary.is_word(content.get("role")):
        redacted["role"] = content["role"]
    for key in ("parts", "content"):
        value = content.get(key)
        if isinstance(value, list):
            redacted[key] = [_redacted_part(part, redactor) for part in value]
        elif value is not None:
            redacted[key] = mask()
    return redacted


def _redacted_part(part: Any, redactor: Redactor) -> Message:
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(kind, str):
        return _masked_text()
    is_call = isinstance(part.get("toolCallId"), str)
    if is_call and (kind in _TOOL_TYPES or kind.startswith(_TOOL)):
        return _redacted_tool(part, kind, redactor)
    # Names and values of an application's own data parts are content.
    redact = _REDACTED.get(kind)
    return _masked_text() if redact is None else {"type": kind, **redact(part, redactor)}


def _redacted_tool(part: Message, kind: str, redactor: Redactor) -> Message:
    if kind not in _TOOL_TYPES:
        kind = _TOOL + redactor.safe_name(kind.removeprefix(_TOOL))
    redacted: Message = {"type": kind, **redactor.ids(part, "toolCallId", chosen=True)}
    if isinstance(name := part.get("toolName"), str):
        redacted["toolName"] = redactor.safe_name(name)
    redacted |= _flags(part, *_FLAGS) | _state(part)
    for key, replacement in (
        ("input", {}),
        ("args", {}),
        ("argsText", "{}"),
        ("output", mask()),
        ("result", mask()),
        ("errorText", mask()),
    ):
        if key in part:
            redacted[key] = replacement
    approval = part.get("approval")
    if isinstance(approval, dict):
        redacted["approval"] = redactor.ids(approval, "id", chosen=True) | _flags(
            approval, "approved"
        )
    return redacted


def _redacted_text(part: Message, redactor: Redactor) -> Message:
    return {"text": redactor.text(part.get("text")), **_state(part)}


def _redacted_file(part: Message, redactor: Redactor) -> Message:
    media_key = "mimeType" if "mimeType" in part else "mediaType"
    data_key = "data" if "data" in part else "url"
    if str(part.get(media_key)).lower().startswith("image/"):
        return {media_key: "image/png", data_key: PLACEHOLDER_IMAGE}
    text = base64.b64encode(mask("DOCUMENT").encode()).decode()
    return {media_key: "text/plain", data_key: f"data:text/plain;base64,{text}"}


def _redacted_source(part: Message, redactor: Redactor) -> Message:
    redacted: Message = redactor.ids(part, "id", chosen=True)
    if isinstance(name := part.get("sourceId"), str):
        # Often the URL itself.
        redacted["sourceId"] = redactor.pseudonym(name)
    if part.get("sourceType") in _SOURCE_TYPES:
        redacted["sourceType"] = part["sourceType"]
    if "mediaType" in part:
        redacted["mediaType"] = "text/plain"
    return {**redacted, **{key: mask() for key in ("url", "title") if key in part}}


def _state(part: Message) -> Message:
    state = part.get("state")
    return {"state": state} if isinstance(state, str) and state in _STATES else {}


def _flags(value: Message, *keys: str) -> Message:
    return {key: value[key] for key in keys if isinstance(value.get(key), bool)}


_REDACTED: dict[str, Callable[[Message, Redactor], Message]] = {
    "text": _redacted_text,
    "reasoning": _redacted_text,
    "file": _redacted_file,
    "image": lambda part, redactor: {"image": PLACEHOLDER_IMAGE},
    "source": _redacted_source,
    "source-url": _redacted_source,
    "source-document": _redacted_source,
    "step-start": lambda part, redactor: {},
}
