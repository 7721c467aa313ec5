"""Snapshots of graphs and swarms: the state, and the rest of the document."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

from django_agent_sessions.adapters.strands.live_redaction import as_state
from django_agent_sessions.exceptions import StaleSessionError
from django_agent_sessions.models.fields import CorruptPayload

from . import json_documents
from .cache import KnownOrchestrator


class OrchestratorSave:
    """A snapshot of an orchestrator to be stored."""

    def __init__(self, data: bytes, known: KnownOrchestrator | None) -> None:
        document = json_documents.load_document(data)
        content = document.get("data") if isinstance(document, dict) else None
        if not isinstance(content, dict) or not isinstance(content.get("state"), dict):
            raise json_documents.UnstructuredError
        self._state = json_documents.decode_bytes(content["state"])
        self._document = {**document, "data": {**content, "state": None}}
        self._known = known
        self.kind = str(self._state.get("type", ""))[:64]

    def plan(
        self, session: UUID, epoch: int, stored: Callable[[], tuple[Any, Any]]
    ) -> tuple[Any, Any]:
        """Return the state and document to write, without redacted texts.

        Raises ``StaleSessionError`` if the session was deleted, or if the redacted texts are not
        known.
        """
        known = self._known
        basis = known.basis.standing() if known is not None and known.basis else None
        if basis is not None and basis.key != session:
            raise StaleSessionError(
                "the session was deleted: build the orchestrator again and try again"
            )
        if known is None:
            if epoch and stored()[0] is not None:
                raise StaleSessionError(
                    "the session was redacted, and the orchestrator may still contain the "
                    "redacted text: restore the orchestrator and try again"
                )
            return self._state, self._document
        if known.epoch != epoch:
            state, _ = stored()
            if state is not None:
                known.corrections.note(as_state(known.state), as_state(state))
        corrected = known.corrections.apply(as_state(self._state)).conversation_manager_state
        return corrected, self._document

    def known(self, session: UUID, epoch: int) -> KnownOrchestrator:
        """Return what the storage knows after the write."""
        known = KnownOrchestrator(session, epoch, self._state)
        if self._known is not None:
            known.corrections = self._known.corrections
        return known


def build_orchestrator_document(
    session: UUID, epoch: int, state: Any, document: Any
) -> tuple[bytes, KnownOrchestrator]:
    """Build a snapshot; return it with what the storage knows of the orchestrator."""
    content = document.get("data") if isinstance(document, dict) else None
    if isinstance(state, CorruptPayload) or not isinstance(content, dict):
        raise json_documents.UnstructuredError
    data = json_documents.dump_document({**document, "data": {**content, "state": state}})
    return data, KnownOrchestrator(session, epoch, state)


def keep_orchestrator_redactions(
    known: KnownOrchestrator | None, now: KnownOrchestrator
) -> KnownOrchestrator:
    """Keep the known redactions when an orchestrator is read again."""
    if known is None or known.session != now.session:
        return now
    if known.epoch != now.epoch:
        known.corrections.note(as_state(known.state), as_state(now.state))
    return replace(now, corrections=known.corrections)
