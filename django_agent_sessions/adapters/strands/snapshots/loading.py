"""Reading snapshots: the bytes are made anew of what is stored."""

from __future__ import annotations

from typing import Any

from strands.types.session import encode_bytes_values

from django_agent_sessions.store.snapshot_records import Loaded

from . import documents, references
from .alignment import Text
from .memory import Known


def made(loaded: Loaded, snapshot_id: str) -> tuple[bytes, Known]:
    """Makes a snapshot of what was read."""
    # An agent's state may hold bytes where no snapshot was written of it.
    document = encode_bytes_values(loaded.document)
    content = document.get("data") if isinstance(document, dict) else None
    if not isinstance(content, dict) or not isinstance(loaded.messages, list):
        raise documents.UnstructuredError
    if "messages" not in content:
        # Made by something else than Strands' manager.
        document = {**document, "data": {"messages": None, **content}}
    raws: list[bytes] = []
    there: list[Any] = []
    for item in loaded.messages:
        for reference, message in _messages(item, loaded):
            raws.append(documents.dumps(message))
            references.add_all(there, [reference])
    text = Text.of(raws)
    data, first, stop = documents.with_messages(document, raws)
    text = Text(data, first, stop, text.offsets)
    known = Known(
        session=loaded.session,
        agent=loaded.agent,
        epoch=loaded.epoch,
        revision=loaded.revision,
        last=loaded.last,
        branch=loaded.branch,
        messages=there,
        text=text,
        snapshot_id=snapshot_id,
        document=document,
    )
    return data, known


def _messages(item: Any, loaded: Loaded) -> Any:
    """What a reference stands for; what is not there any more is left out."""
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
