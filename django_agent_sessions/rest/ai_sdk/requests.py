"""Reading what ``useChat`` posts: the user's last message, and nothing else a client claims."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rest_framework.exceptions import ValidationError

from django_agent_sessions.exceptions import InvalidIdError
from django_agent_sessions.ids import validate_id
from django_agent_sessions.rest.problems import Conflict
from django_agent_sessions.transcripts.images import image_type

from .chat import Attachment

SUBMIT = "submit-message"
"""The trigger of a new message."""

REGENERATE = "regenerate-message"
"""The trigger of another answer to an old one."""

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
"""What may be attached by default: media types, and how frameworks name them."""

_HALF = re.compile(r"[\ud800-\udfff]")
"""Half of a surrogate pair: JavaScript makes it where a text is cut by its length."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a message may hold."""

    characters: int
    files: int
    file_bytes: int
    formats: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Incoming:
    """What a client asks for."""

    id: str
    """What it calls the chat."""

    trigger: str
    message_id: str = ""
    text: str = field(default="", repr=False)
    files: tuple[Attachment, ...] = field(default=(), repr=False)


def read(body: Any, limits: Limits) -> Incoming:
    """Reads a request of ``useChat``."""
    if not isinstance(body, dict):
        raise ValidationError("Send a JSON object.")
    chat = _id(body.get("id"), "id")
    trigger = body.get("trigger", SUBMIT)
    if trigger == REGENERATE:
        return Incoming(chat, REGENERATE)
    if trigger != SUBMIT:
        raise ValidationError({"trigger": [f"Give {SUBMIT} or {REGENERATE}."]})
    if body.get("messageId") is not None:
        raise Conflict("A message that was sent cannot be changed: send a new one.")
    message = _last(body)
    key = message.get("id")
    message_id = _id(key, "message.id") if key not in (None, "") else ""
    texts: list[str] = []
    files: list[Attachment] = []
    for part in _parts(message):
        _read_part(part, texts, files, limits)
    text = "\n".join(texts)
    if _HALF.search(text):
        # Most models' clients cannot send it, in this turn and in all that come after it.
        raise _wrong("It holds half of a character: do not cut a text within an emoji.")
    if len(text) > limits.characters:
        raise _wrong(f"Say it in at most {limits.characters} characters.")
    if not text.strip() and not files:
        raise _wrong("It is empty: say something, or attach a file.")
    return Incoming(chat, SUBMIT, message_id, text, tuple(files))


def _last(body: dict[str, Any]) -> dict[str, Any]:
    message = body.get("message")
    if message is None:
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages:
            raise ValidationError({"messages": ["Send the user's message, as the last one."]})
        message = messages[-1]
    if not isinstance(message, dict):
        raise _wrong("It has to be an object with a role and parts.")
    if message.get("role") != "user":
        raise _wrong("Its role has to be user: what others say is not taken from a client.")
    return message


def _parts(message: dict[str, Any]) -> list[Any]:
    parts = message.get("parts")
    if isinstance(parts, list):
        return parts
    raise _wrong("It has to have a list of parts.")


def _read_part(part: Any, texts: list[str], files: list[Attachment], limits: Limits) -> None:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind == "text" and isinstance(part.get("text"), str):
        texts.append(part["text"])
    elif kind == "file":
        if len(files) >= limits.files:
            raise _wrong(f"It may have at most {limits.files} files.")
        files.append(_file(part, limits))
    else:
        raise _wrong("Its parts have to be texts and files.")


def _file(part: dict[str, Any], limits: Limits) -> Attachment:
    url, name = part.get("url"), part.get("filename") or ""
    if not isinstance(url, str) or not url[:5].lower() == "data:":
        raise _wrong("Send a file as a data: URL: other addresses are not fetched.")
    if not isinstance(name, str) or len(name) > 255:
        raise _wrong("The filename has to be a text of at most 255 characters.")
    header, comma, encoded = url[5:].partition(",")
    media_type, _semicolon, encoding = header.partition(";")
    media_type = media_type.strip().lower()
    if not comma or encoding.rpartition(";")[2].strip().lower() != "base64":
        raise _wrong("Send a file as a data: URL in base64.")
    file_format = limits.formats.get(media_type)
    if file_format is None:
        raise _wrong(f"Files have to be one of: {', '.join(sorted(limits.formats.values()))}.")
    if len(encoded) > limits.file_bytes * 4 // 3 + 4:
        raise _wrong(f"A file may have at most {limits.file_bytes} bytes.")
    try:
        data = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise _wrong("The data: URL of a file is not base64.") from None
    if not data or len(data) > limits.file_bytes:
        raise _wrong(f"A file has to have 1 to {limits.file_bytes} bytes.")
    if media_type.startswith("image/") and image_type(data[:16]) != media_type:
        raise _wrong("An image is not what its media type says.")
    return Attachment(data, media_type, file_format, _clean(name))


def _clean(name: str) -> str:
    """Takes the name of a file without folders, and without what no screen shows."""
    last = name.replace("\\", "/").rpartition("/")[2]
    return "".join(letter for letter in last if letter.isprintable()).strip()


def _id(value: Any, name: str) -> str:
    try:
        return validate_id(value, name)
    except InvalidIdError as error:
        raise ValidationError({name: [str(error)]}) from None


def _wrong(detail: str) -> ValidationError:
    return ValidationError({"message": [detail]})
