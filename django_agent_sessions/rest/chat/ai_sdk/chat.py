"""The user's message and session, as ``respond`` receives them."""

from __future__ import annotations

import base64
import re
import threading
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from .ui_parts import UIPart

_PUNCTUATION = re.compile(r"[^\w\s()\[\]-]+|_")


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that the user sent."""

    data: bytes = field(repr=False)
    media_type: str
    """One of the media types that the view accepts."""

    file_format: str
    """The name of the format that agent frameworks use: ``png``, ``pdf`` …"""

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
    """The client's id of the session: ``useChat({id})``."""

    key: UUID
    """The session's primary key."""

    session_id: str
    """The session's id for ``DjangoSessionManager`` and ``DjangoSession``."""

    namespace: str
    """The session's namespace for ``DjangoSessionManager`` and ``DjangoSession``."""

    scope: str
    """The scope of the session's id in its namespace; pass it on with the namespace."""

    user: Any = field(repr=False)
    """The user who asks, who is the session's owner."""

    text: str = field(repr=False)
    """The text of the message; empty if there are only files."""

    files: tuple[Attachment, ...] = field(repr=False)
    """The files of the message."""

    message_id: str
    """The client's id of the message; empty if it sent none."""

    request: Any = field(repr=False)
    """The request of REST framework."""

    stopping: threading.Event = field(default_factory=threading.Event)
    """Set when the answer must stop; for slow tools and Strands' ``cancel_signal``."""

    @property
    def strands_input(self) -> list[Any]:
        """The message as content blocks, for ``agent.stream_async``."""
        blocks: list[dict[str, Any]] = [{"text": self.text}] if self.text else []
        for number, file in enumerate(self.files, 1):
            source = {"format": file.file_format, "source": {"bytes": file.data}}
            if file.is_image:
                blocks.append({"image": source})
            else:
                # Providers reject duplicate document names, and most punctuation in them.
                stem = " ".join(
                    _PUNCTUATION.sub(" ", file.name.rpartition(".")[0] or file.name).split()
                )
                blocks.append({"document": {**source, "name": f"{stem[:60]} {number}".strip()}})
        return blocks

    @property
    def openai_input(self) -> str | list[Any]:
        """The message as input, for ``Runner.run_streamed``."""
        if not self.files:
            return self.text
        content: list[dict[str, Any]] = []
        if self.text:
            content.append({"type": "input_text", "text": self.text})
        for file in self.files:
            if file.is_image:
                image = {"type": "input_image", "image_url": file.data_url, "detail": "auto"}
                content.append(image)
            else:
                name = file.name or f"document.{file.file_format}"
                document = {"type": "input_file", "filename": name, "file_data": file.data_url}
                content.append(document)
        return [{"role": "user", "content": content}]

    @property
    def ui_parts(self) -> list[UIPart]:
        """The message as parts of the AI SDK, for the time until it is in the transcript."""
        parts: list[UIPart] = [{"type": "text", "text": self.text}] if self.text else []
        for file in self.files:
            part = {"type": "file", "mediaType": file.media_type, "url": file.data_url}
            parts.append({**part, "filename": file.name} if file.name else part)
        return parts
