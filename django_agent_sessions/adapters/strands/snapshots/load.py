"""Build the bytes of a snapshot from the stored rows."""

from __future__ import annotations

from typing import Any

from strands.types.session import encode_bytes_values

from django_agent_sessions.store.snapshots import LoadedSnapshot

from . import json_documents, references
from .alignment import MessageBytes
from .cache import KnownAgent


def build_document(loaded: LoadedSnapshot, snapshot_id: str) -> tuple[bytes, KnownAgent]:
    """Build a snapshot; return it with what the storage knows of the agent."""
    # An agent's state may contain bytes if no snapshot of it was ever written.
    document = encode_bytes_values(loaded.document)
    content = document.get("data") if isinstance(document, dict) else None
    if not isinstance(content, dict) or not isinstance(loaded.messages, list):
        raise json_documents.UnstructuredError
    if "messages" not in content:
        # Created by something other than Strands' manager.
        document = {**document, "data": {"messages": None, **content}}
    parts: list[bytes] = []
    known_references: list[Any] = []
    for item in loaded.messages:
        for reference, message in _referenced_messages(item, loaded):
            parts.append(json_documents.dump_document(message))
            references.add_all(known_references, [reference])
    text = MessageBytes.of(parts)
    data, first, stop = json_documents.join(document, parts)
    text = MessageBytes(data, first, stop, text.offsets)
    known = KnownAgent(
        session=loaded.session,
        agent=loaded.agent,
        epoch=loaded.epoch,
        revision=loaded.revision,
        last=loaded.last,
        branch=loaded.branch,
        messages=known_references,
        text=text,
        snapshot_id=snapshot_id,
        document=document,
    )
    return data, known


def _referenced_messages(item: Any, loaded: LoadedSnapshot) -> Any:
    """Return the messages of a reference; those that no longer exist are left out."""
    if isinstance(item, list):
        for position in range(*item):
            if position in loaded.contents:
                yield [position, position + 1], loaded.contents[position]
        return
    position = item.get("position")
    if position in loaded.redacted:
        yield [position, position + 1], loaded.contents[position]
    else:
        yield item, item["message"]
