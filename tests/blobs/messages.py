"""Messages with large binaries, and what a client gets of them."""

from __future__ import annotations

import json
import os
from typing import Any

from django_agent_sessions.content.blob_refs import BlobRef

PNG = b"\x89PNG\r\n\x1a\n"
PATH = ("content", 1)
"""Where :func:`user` puts its first block."""


def picture(size: int = 200_000) -> bytes:
    """A file that begins as a PNG does, and that no other is equal to."""
    return PNG + os.urandom(size - len(PNG))


def storages(backend: dict[str, Any]) -> dict[str, Any]:
    """Settings that send large binaries to a storage."""
    return {"STORAGES": {"blobs": backend}, "AGENT_SESSIONS": {"BLOB_STORAGE": "blobs"}}


def image(data: bytes | BlobRef, form: str = "png") -> dict[str, Any]:
    """A block of Strands."""
    return {"image": {"format": form, "source": {"bytes": data}}}


def document(data: bytes, form: str = "pdf", name: str = "report") -> dict[str, Any]:
    """A block of Strands."""
    return {"document": {"format": form, "name": name, "source": {"bytes": data}}}


def user(*blocks: dict[str, Any], text: str = "Look:") -> dict[str, Any]:
    """A message of Strands with a text before the blocks."""
    return {"role": "user", "content": [{"text": text}, *blocks]}


def media(client: Any, message: str, *path: Any, **given: Any) -> Any:
    """Asks for a binary of a message, whose URL is given, and reads the answer."""
    answer = unread(client, message, *path, **given)
    answer.all = b"".join(answer) if answer.streaming else answer.content
    return answer


def unread(client: Any, message: str, *path: Any, **given: Any) -> Any:
    """Asks for a binary of a message."""
    query = {"path": json.dumps(list(path or PATH)), **given.pop("query", {})}
    return client.get(f"{message}media/", query, **given)
