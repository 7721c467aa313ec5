"""The originals of what a context manager of Strands replaced in an agent's messages.

``Agent(context_manager=...)`` replaces large content by a preview with a reference, and keeps the
original in its stash, in memory by default. The conversation has the originals too, so that after a
restore the stash is filled from its rows: nothing is stored twice, and a redaction reaches all.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from strands._async import run_async

from django_agent_sessions.content import masking
from django_agent_sessions.content.message_references import inline_positions
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.records import AgentRecord, RestoredMessage

from .newer_names import LocalAgent

_REFERENCES = re.compile(r"\[refs?: ([^\[\]]+)\]")
_PAGE = 100


def read_originals(
    store: SessionStore, record: AgentRecord, restored: Iterable[RestoredMessage]
) -> dict[str, Any]:
    """Return what the changed messages of an agent refer to, by its key in a stash."""
    changed = inline_positions(record.data)
    needed: set[str] = set()
    positions = []
    for row in restored:
        if row.position is None or row.position in changed:
            references = _references(row.payload)
            needed |= references
            # A message without a row, such as a summary, may refer to any other.
            positions += [row.position or 0] * bool(references)
    return _find(store, record, needed, min(positions)) if positions else {}


def fill_stash(agent: LocalAgent, originals: dict[str, Any]) -> None:
    """Write originals to an agent's stash, unless it outlasts the process."""
    stash = _stash_in_memory(agent)
    if stash is not None and originals:
        run_async(lambda: stash.load_snapshot(originals))


def mask_stash(agent: LocalAgent, secrets: Collection[str]) -> None:
    """Mask texts in an agent's stash, unless it outlasts the process."""
    stash = _stash_in_memory(agent)
    if stash is None:
        return
    entries = run_async(stash.take_snapshot)
    masked = {key: masking.mask_texts(entry, secrets) for key, entry in entries.items()}
    changed = {key: entry for key, entry in masked.items() if entry is not entries[key]}
    if changed:
        run_async(lambda: stash.load_snapshot(changed))


def _stash_in_memory(agent: LocalAgent) -> Any:
    # Before 1.58, agents had none.
    manager = getattr(agent, "context_manager", None)
    return None if manager is None or manager.stash_is_durable else manager.stash


def _find(store: SessionStore, record: AgentRecord, needed: set[str], first: int) -> dict[str, Any]:
    """Return the needed entries of messages, read from the last one back to ``first``."""
    found: dict[str, Any] = {}
    end = store.messages.next_position(record)
    while end > first and not needed <= found.keys():
        start = max(first, end - _PAGE)
        rows = store.messages.list(record, limit=end - start, offset=start)
        entries = (entry for row in rows for entry in _entries(row.content))
        # Of equal ids, the latest, as in a stash.
        found = {key: value for key, value in entries if key in needed} | found
        end = start
    return found


def _entries(message: Any) -> Iterator[tuple[str, Any]]:
    """Yield the blocks of a message with the keys that a stash gives them."""
    for index, block in enumerate(_items(message)):
        if result := block.get("toolResult"):
            for number, item in enumerate(_items(result)):
                yield f"{result.get('toolUseId')}_{number}", item
        else:
            yield f"{message.get('tracking_id')}_{index}", block


def _references(message: Any) -> set[str]:
    """Return the references in a message's texts and tool results."""
    found: set[str] = set()
    for block in _items(message):
        for item in (block, *_items(block.get("toolResult"))):
            if isinstance(text := item.get("text"), str):
                found.update(*(names.split(", ") for names in _REFERENCES.findall(text)))
    return found


def _items(holder: Any) -> list[dict[str, Any]]:
    content = holder.get("content") if isinstance(holder, dict) else None
    return [item for item in content if isinstance(item, dict)] if isinstance(content, list) else []
