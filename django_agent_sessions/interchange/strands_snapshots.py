"""Reading of the latest snapshots of Strands' ``SnapshotSessionManager``, without the SDK.

From ``strands/session/snapshot_session_manager.py``, 1.62: the keys of a storage are files below
its directory or prefix::

    session/<session id>/scopes/{agent|multiAgent}/<id>/snapshots/snapshot_latest.json

A snapshot contains only the messages that the agent had in memory when it was saved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, TypeVar

from django.core.files.storage import Storage, storages

from django_agent_sessions.content import dialects
from django_agent_sessions.exceptions import PayloadError
from django_agent_sessions.values.records import AgentState

from .sources import Skipped, SourceAgent, SourceMessage, SourceMultiAgent, SourceSession
from .strands_documents import DocumentFiles, unmark_bytes
from .strands_files import PERMANENT_ERRORS, error_reason, list_names, parse_iso_time

T = TypeVar("T")

_NAMESPACE = "session"
_VERSION = "1.0"
_ALL = {"kept": [], "tail": 0}


class StrandsSnapshots:
    """Sessions in the storage of a ``SnapshotSessionManager``."""

    kind = "strands-snapshots"

    def __init__(self, storage: Storage | str, prefix: str = "") -> None:
        self._storage = storages[storage] if isinstance(storage, str) else storage
        self._root = "/".join(filter(None, (prefix.strip("/"), _NAMESPACE)))
        self._files = DocumentFiles(self._storage, lambda name, why: None)

    def count(self) -> int | None:
        """Return the number of session folders."""
        return len(list_names(lambda: self._folders(self._root)))

    def sessions(self) -> Iterator[SourceSession | Skipped]:
        """Yield the sessions in alphabetical order."""
        for session_id in list_names(lambda: self._folders(self._root)):
            skipped: list[Skipped] = []
            scopes = f"{self._root}/{session_id}/scopes"
            try:
                agents = list(self._each(f"{scopes}/agent", _agent, skipped))
                multi_agents = list(self._each(f"{scopes}/multiAgent", _multi_agent, skipped))
            except Exception as error:
                yield Skipped(f"session {session_id!r}", error_reason(error))
                continue
            if not agents and not multi_agents:
                yield from skipped
                yield Skipped(f"session {session_id!r}", "it has no valid latest snapshot")
                continue
            saved = [agent.updated_at for agent in agents if agent.updated_at is not None]
            yield SourceSession(
                session_id=session_id,
                agents=agents,
                multi_agents=multi_agents,
                updated_at=max(saved, default=None),
                skipped=skipped,
            )

    def _each(
        self, scope: str, create: Callable[[str, Mapping[str, Any], Any], T], skipped: list[Skipped]
    ) -> Iterator[T]:
        for name in self._folders(scope):
            file = f"{scope}/{name}/snapshots/snapshot_latest.json"
            try:
                document = self._files.read(file)
                if document is None:
                    raise PayloadError("it does not exist")
                document = unmark_bytes(document, file)
                data = document.get("data")
                if document.get("schema_version") != _VERSION or not isinstance(data, dict):
                    raise PayloadError(f"it is not a snapshot of version {_VERSION}")
                yield create(name, data, parse_iso_time(document.get("created_at")))
            except PERMANENT_ERRORS as error:
                skipped.append(Skipped(file, error_reason(error)))

    def _folders(self, name: str) -> list[str]:
        return self._files.list(name)[0]


def _agent(name: str, data: Mapping[str, Any], saved: datetime | None) -> SourceAgent:
    messages = data.get("messages", [])
    if not isinstance(messages, list):
        raise PayloadError("its messages are not a list")
    internal = {key: data[key] for key in ("interrupt_state", "model_state") if key in data}
    return SourceAgent(
        agent_id=name,
        dialect=dialects.STRANDS,
        # A snapshot has no times of messages.
        messages=[SourceMessage(message, created_at=saved) for message in messages],
        data=AgentState(
            state=data.get("state", {}),
            conversation_manager_state=data.get("conversation_manager_state", {}),
            internal_state=internal,
            # Removed messages are not in the snapshot, so that the window contains all of these.
            window=_ALL,
        ),
        created_at=saved,
        updated_at=saved,
    )


def _multi_agent(name: str, data: Mapping[str, Any], saved: datetime | None) -> SourceMultiAgent:
    state = data.get("state")
    if not isinstance(state, dict):
        raise PayloadError("it has no state")
    return SourceMultiAgent(
        multi_agent_id=name,
        kind=str(state.get("type", "")),
        state=state,
        created_at=saved,
    )
