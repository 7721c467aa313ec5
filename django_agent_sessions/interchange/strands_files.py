"""Reading what Strands' file and S3 session managers wrote, in any storage. No SDK."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.core.exceptions import SuspiciousFileOperation
from django.core.files.storage import Storage

from django_agent_sessions import transcripts
from django_agent_sessions.exceptions import AgentSessionsError
from django_agent_sessions.records import AgentState

from .layout import Layout
from .sources import (
    Skipped,
    SourceAgent,
    SourceError,
    SourceMessage,
    SourceMultiAgent,
    SourceSession,
)

_PART = 64
LASTING = (AgentSessionsError, SuspiciousFileOperation, FileNotFoundError)
"""Why a file cannot be read that will not be better in a minute."""


class StrandsFiles:
    """Sessions in the layout of ``FileSessionManager`` and ``S3SessionManager``."""

    kind = "strands-files"

    def __init__(self, storage: Storage | str, prefix: str = "") -> None:
        self._strays: list[Skipped] = []
        self._layout = Layout(storage, prefix, report=self._stray)

    def count(self) -> int | None:
        """Counts the folders of sessions."""
        found = len(listed(self._layout.session_ids))
        # Whoever reads them is told of them again.
        self._strays.clear()
        return found

    def sessions(self) -> Iterator[SourceSession | Skipped]:
        """Reads the sessions, in alphabetic order."""
        names = listed(self._layout.session_ids)
        yield from self._told()
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
            return Skipped(place, reason(error))
        return SourceSession(
            session_id=session_id,
            agents=agents,
            multi_agents=multi_agents,
            created_at=moment(head.get("created_at")),
            updated_at=moment(head.get("updated_at")),
            columns={"session_type": head.get("session_type")},
            skipped=[*self._told(), *skipped],
        )

    def _agents(self, session_id: str, skipped: list[Skipped]) -> Iterator[SourceAgent]:
        for agent_id in self._layout.agent_ids(session_id):
            place = f"session_{session_id}/agents/agent_{agent_id}"
            try:
                document = self._layout.read_agent(session_id, agent_id)
                if document is None:
                    skipped.append(Skipped(place, "it has no agent.json"))
            except LASTING as error:
                # Its messages are read all the same: they are worth more than its state.
                skipped.append(Skipped(f"{place}/agent.json", reason(error)))
                document = None
            document = document or {}
            numbers = self._layout.message_numbers(session_id, agent_id)
            yield SourceAgent(
                agent_id=agent_id,
                dialect=transcripts.STRANDS,
                messages=_Messages(self._layout, session_id, agent_id, numbers),
                data=agent_state(document),
                created_at=moment(document.get("created_at")),
                updated_at=moment(document.get("updated_at")),
            )

    def _multi_agents(self, session_id: str, skipped: list[Skipped]) -> Iterator[SourceMultiAgent]:
        for name in self._layout.multi_agent_ids(session_id):
            place = f"session_{session_id}/multi_agents/multi_agent_{name}"
            try:
                state = self._layout.read_multi_agent(session_id, name)
            except LASTING as error:
                skipped.append(Skipped(place, reason(error)))
                continue
            if state is None:
                skipped.append(Skipped(place, "it has no multi_agent.json"))
            else:
                yield SourceMultiAgent(name, str(state.get("type", "")), state)

    def _stray(self, name: str, why: str) -> None:
        self._strays.append(Skipped(name, why, error=False))

    def _told(self) -> list[Skipped]:
        told, self._strays[:] = list(self._strays), []
        return told


class _Messages:
    """The messages of an agent, some at a time and those in parallel."""

    def __init__(
        self, layout: Layout, session_id: str, agent_id: str, numbers: Sequence[int]
    ) -> None:
        self._layout, self._session_id, self._agent_id = layout, session_id, agent_id
        self._numbers = numbers

    def __iter__(self) -> Iterator[SourceMessage | Skipped]:
        place = f"session_{self._session_id}/agents/agent_{self._agent_id}/messages/message_"
        for start in range(0, len(self._numbers), _PART):
            part = self._numbers[start : start + _PART]
            found = self._layout.read_messages(self._session_id, self._agent_id, part)
            for number, document in found:
                if isinstance(document, LASTING):
                    yield Skipped(f"{place}{number}.json", reason(document))
                elif isinstance(document, Exception):
                    # It may be there in a minute: nothing may be counted as read that was not.
                    raise SourceError(
                        f"{place}{number}.json cannot be read: {type(document).__name__}; import "
                        "again to go on"
                    ) from document
                else:
                    yield _message(document)


def agent_state(document: Mapping[str, Any]) -> AgentState:
    """Takes the state of an agent, with what Strands 1.62 calls the parts of it."""
    return AgentState(
        state=document.get("state", {}),
        conversation_manager_state=document.get("conversation_manager_state", {}),
        internal_state=document.get("_internal_state", {}),
    )


def listed(names: Callable[[], list[str]]) -> list[str]:
    """Lists what is in a storage."""
    try:
        return names()
    except Exception as error:
        raise SourceError(f"the storage cannot be listed: {type(error).__name__}") from error


def moment(value: Any) -> datetime | None:
    """Reads a time as Strands writes it."""
    try:
        return datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None


def reason(error: Exception) -> str:
    """Says why a file could not be read, without a word of what is in it."""
    # A storage has errors of its own, whose words may be anything.
    own = isinstance(error, AgentSessionsError | SuspiciousFileOperation)
    return str(error) if own else type(error).__name__


def _message(document: Mapping[str, Any]) -> SourceMessage:
    return SourceMessage(
        payload=document["message"],
        created_at=moment(document.get("created_at")),
        updated_at=moment(document.get("updated_at")),
        redact_message=document.get("redact_message"),
    )
