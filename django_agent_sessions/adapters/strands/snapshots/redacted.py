"""What somebody redacted stays away, whatever a writer that read before still has of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django_agent_sessions import masking
from django_agent_sessions.adapters.strands.scrubbing import Corrections
from django_agent_sessions.records import AgentState
from django_agent_sessions.store.snapshots import Loaded

from .memory import Known

_FREE = ("state", "stash")


def note_redacted(corrections: Corrections, known: Known, document: Any, messages: Any) -> None:
    """Compares a snapshot as it was known with what is stored now.

    Args:
        corrections: What was redacted, to which is added.
        known: As it was known.
        document: The snapshot's document as it is stored.
        messages: Its references as they are stored.
    """
    if isinstance(document, dict) and isinstance(known.document, dict):
        corrections.note(_state(known.document), _state(document))
    if isinstance(messages, list) and len(messages) == len(known.messages):
        for before, after in zip(known.messages, messages, strict=True):
            if isinstance(before, dict) and isinstance(after, dict):
                removed = masking.removed(before["message"], after["message"])
                corrections.secrets |= masking.significant(removed)


def carried(known: Known | None, loaded: Loaded, now: Known) -> Known:
    """Keeps what was known of redactions when an agent is read again.

    Another agent of this process may still have in memory what was read before.

    Args:
        known: What was known before.
        loaded: What was read.
        now: What is known now.

    Returns:
        What is known now, and was before.
    """
    if known is None or known.agent != now.agent:
        return now
    now = replace(now, corrections=known.corrections)
    if known.epoch != now.epoch and known.snapshot_id == now.snapshot_id:
        note_redacted(now.corrections, known, loaded.document, loaded.messages)
    return now


def corrected(document: Any, corrections: Corrections) -> Any:
    """Takes out of a document what was redacted.

    Args:
        document: All of a snapshot but its messages.
        corrections: What was redacted.

    Returns:
        The document; the same object if there is nothing to take out.
    """
    state = _state(document)
    found = corrections.apply(state)
    if found is state:
        return document
    free, data = found.state, {**found.conversation_manager_state, **found.state["data"]}
    return {
        key: {name: data.get(name) for name in document["data"]}
        if key == "data"
        else free.get(key, value)
        for key, value in document.items()
    }


def _state(document: Any) -> AgentState:
    """Puts what an application keeps apart from what the SDK does."""
    data = document.get("data") or {}
    return AgentState(
        state={
            "data": {key: data[key] for key in _FREE if key in data},
            "app_data": document.get("app_data"),
        },
        conversation_manager_state={key: value for key, value in data.items() if key not in _FREE},
    )
