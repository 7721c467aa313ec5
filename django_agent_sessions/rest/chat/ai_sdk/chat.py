"""The user's message: its parsing, and the message and session as ``respond`` receives them.

Only the user's last message is taken from the client.
"""

from __future__ import annotations

import base64
import binascii
import re
import threading
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote_to_bytes
from uuid import UUID, uuid4

from rest_framework.exceptions import ValidationError

from django_agent_sessions.content.dialects.media import image_type
from django_agent_sessions.exceptions import InvalidIdError
from django_agent_sessions.values.ids import validate_id

from .ui_parts import UIPart

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9()\[\]-]+")
_MAX_STEM = 60


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that the user sent."""

    data: bytes = field(repr=False)
    media_type: str
    """One of the media types that the view accepts."""

    file_format: str
    """The name of the format in agent frameworks, such as ``png`` or ``pdf``."""

    name: str = field(default="", repr=False)
    """The file name on the user's computer."""

    @property
    def is_image(self) -> bool:
        """Whether it is an image, which its first bytes confirmed; else it is a document."""
        return self.media_type.startswith("image/")

    @property
    def data_url(self) -> str:
        """The file as a ``data:`` URL."""
        return f"data:{self.media_type};base64,{base64.b64encode(self.data).decode()}"


@dataclass(frozen=True, slots=True)
class Chat:
    """A user's message and the session that it belongs to.

    It contains the new message only. Earlier messages are read from the session, and never taken
    from the client.
    """

    id: str
    """The client's id of the session, as in ``useChat({id})``."""

    key: UUID
    """The session's primary key."""

    session_id: str
    """The session's id for ``DjangoSessionManager`` and ``DjangoSession``."""

    namespace: str
    """The session's namespace for ``DjangoSessionManager`` and ``DjangoSession``."""

    scope: str
    """The scope of the session's id in its namespace; pass it on with the namespace."""

    user: Any = field(repr=False)
    """The user who asks, either the session's owner or a participant who may write."""

    text: str = field(repr=False)
    """The text of the message; empty if there are only files."""

    files: tuple[Attachment, ...] = field(repr=False)
    """The files of the message."""

    message_id: str
    """The client's id of the message; empty if it sent none."""

    request: Any = field(repr=False)
    """The request of REST framework."""

    owner: Any = field(repr=False)
    """The session's owner, as ``DjangoSessionManager`` and ``DjangoSession`` take it."""

    stopping: threading.Event = field(default_factory=threading.Event)
    """Set when the answer must stop; for slow tools and Strands' ``cancel_signal``."""

    parts: tuple[str | Attachment, ...] = field(default=(), repr=False)
    """The texts and files in the order in which they were sent."""

    is_repeated: bool = False
    """Whether the session has the message already, because an earlier answer failed: the inputs
    are empty then, so that the agent continues without storing the message again."""

    _name_suffix: str = field(
        init=False, default_factory=lambda: uuid4().hex[:8], repr=False, compare=False
    )
    """Distinguishes the names of its documents from those of all other messages."""

    def __post_init__(self) -> None:
        if not self.parts:
            texts = (self.text,) if self.text else ()
            object.__setattr__(self, "parts", (*texts, *self.files))

    @property
    def strands_input(self) -> list[Any]:
        """The message as content blocks, for ``agent.stream_async``."""
        if self.is_repeated:
            return []
        blocks: list[dict[str, Any]] = []
        names: list[str] = []
        for part in self.parts:
            if isinstance(part, str):
                blocks.append({"text": part})
                continue
            source = {"format": part.file_format, "source": {"bytes": part.data}}
            if part.is_image:
                blocks.append({"image": source})
            else:
                names.append(f"{_ascii_stem(part.name)} {self._name_suffix}-{len(names) + 1}")
                blocks.append({"document": {**source, "name": names[-1].strip()}})
        if names and not any("text" in block for block in blocks):
            # Providers reject documents without a text.
            blocks.append({"text": self._file_names(names)})
        return blocks

    @property
    def openai_input(self) -> str | list[Any]:
        """The message as input, for ``Runner.run_streamed``."""
        if self.is_repeated:
            return []
        if len(self.parts) == 1 and isinstance(self.parts[0], str):
            return self.parts[0]
        content: list[dict[str, Any]] = []
        for part in self.parts:
            if isinstance(part, str):
                content.append({"type": "input_text", "text": part})
            elif part.is_image:
                image = {"type": "input_image", "image_url": part.data_url, "detail": "auto"}
                content.append(image)
            else:
                name = part.name or f"document.{part.file_format}"
                document = {"type": "input_file", "filename": name, "file_data": part.data_url}
                content.append(document)
        return [{"role": "user", "content": content}]

    @property
    def ui_parts(self) -> list[UIPart]:
        """The message as parts of the AI SDK, for the time until it is in the transcript."""
        parts: list[UIPart] = []
        for part in self.parts:
            if isinstance(part, str):
                parts.append({"type": "text", "text": part})
                continue
            file = {"type": "file", "mediaType": part.media_type, "url": part.data_url}
            parts.append({**file, "filename": part.name} if part.name else file)
        return parts

    def _file_names(self, names: Iterable[str]) -> str:
        """Return the names of the files; of documents without one, those that the model sees."""
        return "\n".join(file.name for file in self.files if file.name) or "\n".join(names).strip()


SUBMIT = "submit-message"
"""The trigger of a new message."""

REGENERATE = "regenerate-message"
"""The trigger of a new answer to an old message."""

FORMATS: Mapping[str, str] = {
    "image/png": "png",
    "image/jpeg": "jpeg",
    "image/gif": "gif",
    "image/webp": "webp",
    "application/pdf": "pdf",
    "text/csv": "csv",
    "text/plain": "txt",
    "text/markdown": "md",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
}
"""The media types of attachments by default, and their names in agent frameworks."""

_LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")
"""Half of a surrogate pair, which JavaScript leaves where it cuts a text within an emoji."""


@dataclass(frozen=True, slots=True)
class MessageLimits:
    """The limits of a message."""

    characters: int
    files: int
    file_bytes: int
    formats: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A parsed request."""

    id: str
    """The client's id of the chat."""

    trigger: str
    message_id: str = ""
    names: str = ""
    """The id of the message that is sent again, or of the answer to it that failed."""

    parts: tuple[str | Attachment, ...] = field(default=(), repr=False)

    @property
    def is_known(self) -> bool:
        """Whether the message must have been sent before: the client names another one."""
        return self.names not in ("", self.message_id)

    @property
    def text(self) -> str:
        """The texts, one per line."""
        return "\n".join(part for part in self.parts if isinstance(part, str))

    @property
    def files(self) -> tuple[Attachment, ...]:
        """The files."""
        return tuple(part for part in self.parts if not isinstance(part, str))


def parse_chat_request(body: Any, limits: MessageLimits) -> ChatRequest:
    """Parse a request of ``useChat``; of several messages only the last one is used."""
    if not isinstance(body, dict):
        raise ValidationError("The body must be a JSON object.")
    chat = _validate(body.get("id"), "id")
    trigger = body.get("trigger", SUBMIT)
    if trigger == REGENERATE:
        return ChatRequest(chat, REGENERATE)
    if trigger != SUBMIT:
        raise ValidationError({"trigger": [f"Must be {SUBMIT} or {REGENERATE}."]})
    names = "" if body.get("messageId") is None else _validate(body["messageId"], "messageId")
    message = _last_message(body, names)
    key = message.get("id")
    message_id = _validate(key, "message.id") if key not in (None, "") else ""
    parts = _read_parts(message, limits)
    parsed = ChatRequest(chat, SUBMIT, message_id, names, parts)
    if _LONE_SURROGATE.search(parsed.text):
        # Most model clients cannot send it, in this turn and in every later one.
        raise _message_error("Contains a lone surrogate: do not split a text within an emoji.")
    if len(parsed.text) > limits.characters:
        raise _message_error(f"Must have at most {limits.characters} characters.")
    if not parts:
        raise _message_error("Must not be empty: send a text or a file.")
    return parsed


def _last_message(body: dict[str, Any], names: str) -> dict[str, Any]:
    message = body.get("message")
    if message is None:
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages:
            raise ValidationError({"messages": ["Must end with the user's message."]})
        message = messages[-1]
        if len(messages) > 1 and _is_answer(message, names):
            # The beginning of an answer that failed: the message before it is sent again.
            message = messages[-2]
    if not isinstance(message, dict):
        raise _message_error("Must be an object with a role and parts.")
    if message.get("role") != "user":
        raise _message_error(
            "The role must be user: other messages are not accepted from a client."
        )
    return message


def _is_answer(message: Any, key: str) -> bool:
    is_assistants = isinstance(message, dict) and message.get("role") == "assistant"
    return is_assistants and key != "" and message.get("id") == key


def _parts(message: dict[str, Any]) -> list[Any]:
    parts = message.get("parts")
    if isinstance(parts, list):
        return parts
    raise _message_error("Must have a list of parts.")


def _read_parts(message: dict[str, Any], limits: MessageLimits) -> tuple[str | Attachment, ...]:
    """Return the texts and files in order, without blank texts, which providers reject."""
    parts: list[str | Attachment] = []
    files = 0
    for part in _parts(message):
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "text" and isinstance(part.get("text"), str):
            if part["text"].strip():
                parts.append(part["text"])
        elif kind == "file":
            files += 1
            if files > limits.files:
                raise _message_error(f"Must have at most {limits.files} files.")
            parts.append(_file(part, limits))
        else:
            raise _message_error("The parts must be texts and files.")
    return tuple(parts)


def _file(part: dict[str, Any], limits: MessageLimits) -> Attachment:
    url, name = part.get("url"), part.get("filename") or ""
    if not isinstance(url, str) or not url[:5].lower() == "data:":
        raise _message_error("A file must be a data: URL: other URLs are not fetched.")
    if not isinstance(name, str) or len(name) > 255:
        raise _message_error("A filename must be a string of at most 255 characters.")
    header, comma, encoded = url[5:].partition(",")
    media_type, _semicolon, encoding = header.partition(";")
    media_type = media_type.strip().lower()
    if not comma:
        raise _message_error("A file must be a data: URL.")
    file_format = limits.formats.get(media_type)
    if file_format is None:
        raise _message_error(
            f"A file must be one of: {', '.join(sorted(limits.formats.values()))}."
        )
    is_base64 = encoding.rpartition(";")[2].strip().lower() == "base64"
    if len(encoded) > limits.file_bytes * (4 / 3 if is_base64 else 3) + 4:
        raise _message_error(f"A file must have at most {limits.file_bytes} bytes.")
    try:
        data = base64.b64decode(encoded, validate=True) if is_base64 else unquote_to_bytes(encoded)
    except (binascii.Error, ValueError):
        raise _message_error("The data: URL of a file is not valid base64.") from None
    if not data or len(data) > limits.file_bytes:
        raise _message_error(f"A file must have 1 to {limits.file_bytes} bytes.")
    if media_type.startswith("image/") and image_type(data[:16]) != media_type:
        raise _message_error("The content of an image does not match its media type.")
    return Attachment(data, media_type, file_format, _file_name(name))


def _ascii_stem(name: str) -> str:
    """Return a file name without its extension, of the characters that providers accept."""
    stem = unicodedata.normalize("NFKD", name.rpartition(".")[0] or name)
    words = _NOT_IN_NAMES.sub(" ", stem.encode("ascii", "ignore").decode()).split()
    return " ".join(words)[:_MAX_STEM].strip()


def _file_name(name: str) -> str:
    """Return a file name without folders and without unprintable characters."""
    last = name.replace("\\", "/").rpartition("/")[2]
    return "".join(letter for letter in last if letter.isprintable()).strip()


def _validate(value: Any, name: str) -> str:
    try:
        return validate_id(value, name)
    except InvalidIdError as error:
        raise ValidationError({name: [str(error)]}) from None


def _message_error(detail: str) -> ValidationError:
    return ValidationError({"message": [detail]})
