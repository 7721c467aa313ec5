"""What an agent is given: who asks what in which session."""

from __future__ import annotations

import base64
import re
import threading
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from .parts import UIPart

_ODD = re.compile(r"[^\w\s()\[\]-]+|_")


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that the user sent."""

    data: bytes = field(repr=False)
    media_type: str
    """Its media type: one of those that the view accepts."""

    file_format: str
    """The same as frameworks name it: ``png``, ``pdf`` …"""

    name: str = field(default="", repr=False)
    """What the user's computer calls it."""

    @property
    def is_image(self) -> bool:
        """Whether it is an image, told by its first bytes; else a document."""
        return self.media_type.startswith("image/")

    @property
    def data_url(self) -> str:
        """The file as a ``data:`` URL."""
        return f"data:{self.media_type};base64,{base64.b64encode(self.data).decode()}"


@dataclass(frozen=True, slots=True)
class Chat:
    """A user's message, and the session that it goes to.

    Of what a client sends it holds what the user says now. What a client says that was said before
    is not here: what was said is in the session.
    """

    id: str
    """What the client calls the session: ``useChat({id})``."""

    key: UUID
    """The session's primary key."""

    session_id: str
    """The session's name, for ``DjangoSessionManager`` and ``DjangoSession``."""

    namespace: str
    """The session's namespace, for the same."""

    user: Any = field(repr=False)
    """Whose session it is, and who asks."""

    text: str = field(repr=False)
    """What the user says; empty if there are only files."""

    files: tuple[Attachment, ...] = field(repr=False)
    """What the user sends along."""

    message_id: str
    """What the client calls the message; empty if it gave none."""

    request: Any = field(repr=False)
    """The request of REST framework."""

    stopping: threading.Event = field(default_factory=threading.Event)
    """Set when the answer is to stop; for tools that take long, and Strands' ``cancel_signal``."""

    @property
    def strands_input(self) -> list[Any]:
        """The message as content blocks, for ``agent.stream_async``."""
        blocks: list[dict[str, Any]] = [{"text": self.text}] if self.text else []
        for number, file in enumerate(self.files, 1):
            source = {"format": file.file_format, "source": {"bytes": file.data}}
            if file.is_image:
                blocks.append({"image": source})
            else:
                # Providers refuse two documents of one name, and most punctuation in it.
                stem = " ".join(_ODD.sub(" ", file.name.rpartition(".")[0] or file.name).split())
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
        """The message as parts of the AI SDK, until it is in the transcript."""
        parts: list[UIPart] = [{"type": "text", "text": self.text}] if self.text else []
        for file in self.files:
            part = {"type": "file", "mediaType": file.media_type, "url": file.data_url}
            parts.append({**part, "filename": file.name} if file.name else part)
        return parts
