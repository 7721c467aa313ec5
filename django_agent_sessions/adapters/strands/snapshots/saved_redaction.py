"""Apply redactions to the data of writers that read before the redaction."""

from __future__ import annotations

import json
from collections.abc import Collection, Container, Mapping
from dataclasses import replace
from typing import Any

from django_agent_sessions.adapters.strands.live_redaction import RedactionLog
from django_agent_sessions.content import masking
from django_agent_sessions.store.snapshots import LoadedSnapshot, SnapshotStorageStore
from django_agent_sessions.values.records import AgentState, SessionRecord

from . import json_documents
from .cache import KnownAgent
from .messages import from_ranges

_APPLICATION_KEYS = ("state", "stash")


def note_redacted(
    corrections: RedactionLog, known: KnownAgent, document: Any, messages: Any
) -> None:
    """Compare a snapshot with the one that is stored now."""
    if isinstance(document, dict) and isinstance(known.document, dict):
        corrections.note(_state(known.document), _state(document))
    stored = list(from_ranges(messages)) if isinstance(messages, list) else []
    if known.messages is None or len(stored) != len(known.messages):
        return
    for before, after in zip(known.messages, stored, strict=True):
        if isinstance(before.reference, dict) and isinstance(after, dict):
            corrections.secrets |= removed_texts(before.reference["message"], after["message"])


def removed_texts(before: Any, after: Any) -> set[str]:
    """Return the texts that a redaction of a message removed, in all forms to search for."""
    return masking.searchable_texts(masking.masked_texts(before, after))


def keep_redactions(
    known: KnownAgent | None, loaded: LoadedSnapshot, now: KnownAgent
) -> KnownAgent:
    """Keep the known redactions when an agent is read again.

    Another agent of this process may still have the earlier data in memory.
    """
    if known is None or known.agent != now.agent:
        return now
    evicted = known.evicted and not known.refused
    now = replace(now, corrections=known.corrections, outdated=known.outdated, evicted=evicted)
    if known.epoch != now.epoch:
        now.evicted |= known.messages is None
        contents = {position: loaded.contents[position] for position in loaded.redacted}
        now.outdated |= note_messages(known, contents)
        if known.snapshot_id == now.snapshot_id:
            note_redacted(now.corrections, known, loaded.document, loaded.messages)
    return now


def note_messages(known: KnownAgent, contents: Mapping[int, Any]) -> bool:
    """Compare messages with their redacted content; return whether the agent had the original."""
    had_original = False
    for position, raw in raw_by_position(known, contents).items():
        before, _ = json_documents.message_at(raw, 0)
        if before != contents[position]:
            had_original = True
            known.corrections.secrets |= removed_texts(before, contents[position])
    return had_original


def mask_document(document: Any, corrections: RedactionLog) -> Any:
    """Return a document without the redacted texts."""
    state = _state(document)
    corrected_state = corrections.apply(state)
    if corrected_state is state:
        return document
    application_state, data = (
        corrected_state.state,
        {**corrected_state.conversation_manager_state, **corrected_state.state["data"]},
    )
    return {
        key: {name: data.get(name) for name in document["data"]}
        if key == "data"
        else application_state.get(key, value)
        for key, value in document.items()
    }


def raw_by_position(known: KnownAgent | None, positions: Container[int]) -> dict[int, bytes]:
    """Return messages with the bytes that were last read or written."""
    if known is None or known.messages is None or known.branch != 0:
        return {}
    return {
        message.reference: message.raw
        for message in known.messages
        if isinstance(message.reference, int) and message.reference in positions
    }


def read_redactions(
    store: SnapshotStorageStore, session: SessionRecord, agent_id: str, known: KnownAgent
) -> None:
    """Read the redactions since an agent was last read or written."""
    agent = store.store.agents.find(session, agent_id)
    if agent is None or agent.id != known.agent:
        return
    contents = {
        row.position: row.payload for row in store.store.messages.positioned(agent) if row.redacted
    }
    note_messages(known, contents)
    note_redacted(known.corrections, known, *store.stored_snapshot(agent, known.snapshot_id))


def mask_bytes(data: bytes, secrets: Collection[str]) -> bytes:
    """Mask texts in bytes, which may be JSON or text."""
    if not secrets:
        return data
    try:
        text = data.decode()
    except UnicodeDecodeError:
        clean = masking.mask_texts(data, secrets)
        return bytes(clean) if isinstance(clean, bytes) else str(clean).encode()
    try:
        value = json.loads(text)
        clean = masking.mask_texts(value, secrets)
        return data if clean == value else json.dumps(clean, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return str(masking.mask_texts(text, secrets)).encode()


def _state(document: Any) -> AgentState:
    """Convert a document to a state that separates the application's data from the SDK's."""
    data = document.get("data") or {}
    return AgentState(
        state={
            "data": {key: data[key] for key in _APPLICATION_KEYS if key in data},
            "app_data": document.get("app_data"),
        },
        conversation_manager_state={
            key: value for key, value in data.items() if key not in _APPLICATION_KEYS
        },
    )
