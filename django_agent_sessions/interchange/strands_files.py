"""Reading of the files of Strands' file and S3 session managers, without the SDK."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.core.exceptions import SuspiciousFileOperation
from django.core.files.storage import Storage

from django_agent_sessions.content import dialects
from django_agent_sessions.exceptions import AgentSessionsError
from django_agent_sessions.values.records import AgentState

from .sources import (
    Skipped,
    SourceAgent,
    SourceError,
    SourceMessage,
    SourceMultiAgent,
    SourceSession,
)
from .strands_layout import Layout

_BATCH = 64
PERMANENT_ERRORS = (AgentSessionsError, SuspiciousFileOperation, FileNotFoundError)
"""Permanent errors, for which a retry does not help."""


class StrandsFiles:
    """Sessions in the layout of ``FileSessionManager`` and ``S3SessionManager``."""

    kind = "strands-files"

    def __init__(self, storage: Storage | str, prefix: str = "") -> None:
        self._unexpected: list[Skipped] = []
        self._layout = Layout(storage, prefix, report=self._record_unexpected)

    def count(self) -> int | None:
        """Return the number of session folders."""
        found = len(list_names(self._layout.session_ids))
        # sessions() reports them again.
        self._unexpected.clear()
        return found

    def sessions(self) -> Iterator[SourceSession | Skipped]:
        """Yield the sessions in alphabetical order."""
        names = list_names(self._layout.session_ids)
        yield from self._take_unexpected()
        for session_id in names:
            yield self._session(session_id)

    def _session(self, session_id: str) -> SourceSession | Skipped:
        place = f"session_{session_id}"
        try:
            head = self._layout.read_session(session_id)
            if head is None:
                return Skipped(place, "it has no session.json")
            skipped: list[Skipped] = []
            agents = list(self._agents(session_id, skipped))
            multi_agents = list(self._multi_agents(session_id, skipped))
        except Exception as error:
            return Skipped(place, error_reason(error))
        return SourceSession(
            session_id=session_id,
            agents=agents,
            multi_agents=multi_agents,
            created_at=parse_iso_time(head.get("created_at")),
            updated_at=parse_iso_time(head.get("updated_at")),
            columns={"session_type": head.get("session_type")},
            skipped=[*self._take_unexpected(), *skipped],
        )

    def _agents(self, session_id: str, skipped: list[Skipped]) -> Iterator[SourceAgent]:
        for agent_id in self._layout.agent_ids(session_id):
            place = f"session_{session_id}/agents/agent_{agent_id}"
            try:
                document = self._layout.read_agent(session_id, agent_id)
                if document is None:
                    skipped.append(Skipped(place, "it has no agent.json"))
            except PERMANENT_ERRORS as error:
                # The messages are read even without the state.
                skipped.append(Skipped(f"{place}/agent.json", error_reason(error)))
                document = None
            document = document or {}
            numbers = self._layout.message_numbers(session_id, agent_id)
            yield SourceAgent(
                agent_id=agent_id,
                dialect=dialects.STRANDS,
                messages=_Messages(self._layout, session_id, agent_id, numbers),
                data=parse_agent_state(document),
                created_at=parse_iso_time(document.get("created_at")),
                updated_at=parse_iso_time(document.get("updated_at")),
            )

    def _multi_agents(self, session_id: str, skipped: list[Skipped]) -> Iterator[SourceMultiAgent]:
        for name in self._layout.multi_agent_ids(session_id):
            place = f"session_{session_id}/multi_agents/multi_agent_{name}"
            try:
                state = self._layout.read_multi_agent(session_id, name)
            except PERMANENT_ERRORS as error:
                skipped.append(Skipped(place, error_reason(error)))
                continue
            if state is None:
                skipped.append(Skipped(place, "it has no multi_agent.json"))
            else:
                yield SourceMultiAgent(name, str(state.get("type", "")), state)

    def _record_unexpected(self, name: str, explanation: str) -> None:
        self._unexpected.append(Skipped(name, explanation, error=False))

    def _take_unexpected(self) -> list[Skipped]:
        result, self._unexpected[:] = list(self._unexpected), []
        return result


class _Messages:
    """The messages of an agent, read lazily in parallel batches."""

    def __init__(
        self, layout: Layout, session_id: str, agent_id: str, numbers: Sequence[int]
    ) -> None:
        self._layout, self._session_id, self._agent_id = layout, session_id, agent_id
        self._numbers = numbers

    def __iter__(self) -> Iterator[SourceMessage | Skipped]:
        place = f"session_{self._session_id}/agents/agent_{self._agent_id}/messages/message_"
        for start in range(0, len(self._numbers), _BATCH):
            batch = self._numbers[start : start + _BATCH]
            found = self._layout.read_messages(self._session_id, self._agent_id, batch)
            for number, document in found:
                if isinstance(document, PERMANENT_ERRORS):
                    yield Skipped(f"{place}{number}.json", error_reason(document))
                elif isinstance(document, Exception):
                    # A temporary error: the message must not count as read.
                    raise SourceError(
                        f"{place}{number}.json cannot be read: {type(document).__name__}; import "
                        "again to continue"
                    ) from document
                else:
                    yield _message(document)


def parse_agent_state(document: Mapping[str, Any]) -> AgentState:
    """Return the state of an agent from a document of Strands 1.62."""
    return AgentState(
        state=document.get("state", {}),
        conversation_manager_state=document.get("conversation_manager_state", {}),
        internal_state=document.get("_internal_state", {}),
    )


def list_names(names: Callable[[], list[str]]) -> list[str]:
    """Return names in a storage; raise :exc:`SourceError` if it cannot be listed."""
    try:
        return names()
    except Exception as error:
        raise SourceError(f"the storage cannot be listed: {type(error).__name__}") from error


def parse_iso_time(value: Any) -> datetime | None:
    """Parse a time in Strands' format; None if it is invalid."""
    try:
        return datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None


def error_reason(error: Exception) -> str:
    """Return why a file could not be read, without content."""
    # The texts of a storage's errors may contain anything.
    is_safe = isinstance(error, AgentSessionsError | SuspiciousFileOperation)
    return str(error) if is_safe else type(error).__name__


def _message(document: Mapping[str, Any]) -> SourceMessage:
    return SourceMessage(
        payload=document["message"],
        created_at=parse_iso_time(document.get("created_at")),
        updated_at=parse_iso_time(document.get("updated_at")),
        redact_message=document.get("redact_message"),
    )
