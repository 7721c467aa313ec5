"""Build the bytes of a snapshot from the stored rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from strands.types.session import encode_bytes_values

from django_agent_sessions.store.snapshots import LoadedSnapshot

from . import json_documents
from .cache import KnownAgent
from .messages import Reference, SnapshotMessage, from_ranges, position_of


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
    messages = [
        SnapshotMessage(json_documents.dump_document(message), reference)
        for reference, message in _referenced_messages(loaded)
    ]
    known = KnownAgent(
        session=loaded.session,
        agent=loaded.agent,
        epoch=loaded.epoch,
        revision=loaded.revision,
        last=loaded.last,
        branch=loaded.branch,
        messages=messages,
        snapshot_id=snapshot_id,
        document=document,
    )
    return json_documents.join(document, [message.raw for message in messages]), known


def _referenced_messages(loaded: LoadedSnapshot) -> Iterator[tuple[Reference, Any]]:
    """Yield references with their messages; those that no longer exist are left out."""
    for reference in from_ranges(loaded.messages):
        position = position_of(reference)
        if isinstance(reference, int) or position in loaded.redacted:
            if position is not None and position in loaded.contents:
                yield position, loaded.contents[position]
        else:
            yield reference, reference["message"]
