"""Database operations of a storage; all sync."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from django_agent_sessions.db import bridge
from django_agent_sessions.exceptions import PayloadError, StaleSessionError
from django_agent_sessions.store import SessionStore
from django_agent_sessions.store.snapshots import (
    LATEST_SNAPSHOT_ID,
    LoadedSnapshot,
    SnapshotStorageStore,
)
from django_agent_sessions.values import observing
from django_agent_sessions.values.records import SessionRecord

from . import json_documents, keys, load, orchestrators
from .cache import (
    AgentCache,
    KnownAgent,
    KnownOrchestrator,
    LRUCache,
    next_basis,
    tracking_ids,
)
from .keys import SnapshotKey
from .save import AgentSave
from .saved_redaction import keep_redactions, mask_bytes, read_redactions

R = TypeVar("R")

_MAX_AGENTS = 1000
_MAX_BYTES = 64 * 1024 * 1024
_NO_STASH = ("", "", "")


class StorageOperations:
    """Read, write, delete and list by complete keys."""

    def __init__(
        self, *, owner: Any, namespace: str, scope: str, using: str | None, create: bool | None
    ) -> None:
        self._bindings: dict[str, Any] = {
            "owner": owner,
            "scope": scope,
            "using": using,
            "create": create,
        }
        self._store = SnapshotStorageStore(SessionStore(namespace=namespace, **self._bindings))
        self._agents = AgentCache(_MAX_AGENTS, _MAX_BYTES)
        self._orchestrators: LRUCache[KnownOrchestrator] = LRUCache(_MAX_AGENTS)
        # Redaction epochs of data that is stored verbatim.
        self._epochs: LRUCache[int] = LRUCache(_MAX_AGENTS)

    async def arun(self, function: Callable[[], R]) -> R:
        """Run a method from an event loop."""
        return await bridge.run_async(function, using=self._store.using)

    def trace(self, key: str) -> None:
        """Set the session of a key on the caller's current span, if telemetry is on."""
        if observing.current is None:
            return
        name = keys.parse(self._store.store.namespace, key)
        if name is not None:
            observing.use(name.namespace, name.session_id, name.owner_id)

    def write(self, key: str, data: bytes) -> None:
        """Write the bytes under a key."""
        name = keys.parse(self._store.store.namespace, key)
        if name is None:
            self._write_object(key, data)
            return
        try:
            if name.scope == keys.AGENT:
                self._write_agent(key, name, data)
            else:
                self._write_orchestrator(key, name, data)
        except (json_documents.UnstructuredError, PayloadError):
            self._write_verbatim(key, name, data)

    def read(self, key: str) -> bytes | None:
        """Return the bytes under a key."""
        name = keys.parse(self._store.store.namespace, key)
        if name is None:
            stash = keys.parse_stash(self._store.store.namespace, key)
            if stash is None:
                return self._store.read_object(key)
            session = self._store_of(stash[0]).store.find(stash[1])
            return None if session is None else self._store.read_object(key, session=session)
        data = self._read_agent(name) if name.scope == keys.AGENT else self._read_orchestrator(name)
        if data is not None:
            return data
        session = self._store_of(name.namespace).store.find(name.session_id)
        self._note_missing(name, session)
        if session is None:
            return None
        self._epochs.keep(_directory(name), session.redaction_epoch)
        verbatim = self._store.read_object(key, session=session)
        if verbatim is None and name.scope == keys.AGENT and name.snapshot_id == LATEST_SNAPSHOT_ID:
            # A conversation that was written message by message can be continued.
            log = self._store_of(name.namespace).load_log(name.session_id, name.owner_id)
            return self._build(name, log)
        return verbatim

    def delete(self, key: str) -> None:
        """Delete the bytes under a key."""
        name = keys.parse(self._store.store.namespace, key)
        stash = keys.parse_stash(self._store.store.namespace, key)
        if name is None and stash is None:
            self._store.delete_object(key)
            return
        namespace, session_id = (
            (name.namespace, name.session_id) if name else (stash or _NO_STASH)[:2]
        )
        session = self._store_of(namespace).store.find(session_id)
        if session is None:
            return
        was_deleted = name is not None and self._delete_snapshot(name)
        was_deleted = self._store.delete_object(key, session=session) or was_deleted
        if was_deleted and self._store.delete_session_if_empty(session):
            self._forget_session(namespace, session_id)

    def list(self, prefix: str) -> list[str]:
        """List the keys that begin with a prefix."""
        base = self._store.store.namespace
        names = self._store.snapshot_names(keys.snapshot_places(base, prefix))
        found_keys = {key for name in names if (key := keys.key_of(base, name)) is not None}
        found_keys.update(self._store.object_keys(prefix))
        return sorted(key for key in found_keys if key.startswith(prefix))

    # --- agents -------------------------------------------------------------------------------

    def _write_agent(self, key: str, name: SnapshotKey, data: bytes) -> None:
        directory = _directory(name)
        known = self._agents.get(directory)
        store = self._store_of(name.namespace)
        save = AgentSave(store, name.snapshot_id, data, known, self._epochs.get(directory))
        fresh = False

        def plan(head: Any) -> Any:
            nonlocal fresh
            fresh = head.revision is None
            return save.plan(head)

        head = store.save_snapshot(name.session_id, name.owner_id, name.snapshot_id, plan)
        self._keep_agent(directory, save.known(head))
        if known is None or fresh:
            self._drop_verbatim(key, name)

    def _read_agent(self, name: SnapshotKey) -> bytes | None:
        store = self._store_of(name.namespace)
        return self._build(
            name, store.load_snapshot(name.session_id, name.owner_id, name.snapshot_id)
        )

    def _build(self, name: SnapshotKey, loaded: LoadedSnapshot | None) -> bytes | None:
        if loaded is None:
            return None
        data, known = load.build_document(loaded, name.snapshot_id)
        directory = _directory(name)
        before = self._agents.get(directory)
        now = keep_redactions(before, loaded, known)
        if before is not None:
            now.removed = before.removed
            if self._is_deleted(name, before, now):
                now.removed |= tracking_ids(before)
            now.removed -= tracking_ids(now) if now.removed else frozenset()
        self._keep_agent(directory, now)
        return data

    def _is_deleted(self, name: SnapshotKey, before: KnownAgent, now: KnownAgent) -> bool:
        """Return whether messages that were read or written before were deleted since."""
        basis = before.basis.standing() if before.basis else None
        if basis is None:
            return False
        if basis.key != now.agent:
            return True
        return not self._store_of(name.namespace).is_stored(now.agent, basis.last, now.last)

    def _keep_agent(self, directory: tuple[str, ...], known: KnownAgent) -> None:
        before = self._agents.get(directory)
        basis = before.basis if before is not None else None
        known.basis = next_basis(self._store.using, basis, known.agent, known.last)
        self._agents.keep(directory, known)

    def _note_missing(self, name: SnapshotKey, session: SessionRecord | None) -> None:
        """Record that a writer finds nothing of a deleted session, and may begin a new one."""
        directory = _directory(name)
        orchestrator = self._orchestrators.get(directory)
        if orchestrator is not None and (session is None or session.id != orchestrator.session):
            self._orchestrators.forget(directory)
        known = self._agents.get(directory)
        if known is not None and (session is None or session.id != known.session):
            known.restarted = True
            known.removed |= tracking_ids(known)

    def _forget_session(self, namespace: str, session_id: str) -> None:
        """Forget a session that was deleted by this storage: its data may be written again."""

        def is_of_session(directory: Any) -> bool:
            return bool(directory[:2] == (namespace, session_id))

        for cache in (self._agents, self._orchestrators, self._epochs):
            cache.forget_all(is_of_session)

    # --- orchestrators ------------------------------------------------------------------------

    def _write_orchestrator(self, key: str, name: SnapshotKey, data: bytes) -> None:
        directory = _directory(name)
        known = self._orchestrators.get(directory)
        save = orchestrators.OrchestratorSave(data, known)
        store = self._store_of(name.namespace)
        session = store.save_orchestrator(name.session_id, name.owner_id, save.plan, kind=save.kind)
        self._keep_orchestrator(directory, save.known(*session))
        self._epochs.keep(directory, session[1])
        if known is None:
            self._drop_verbatim(key, name)

    def _read_orchestrator(self, name: SnapshotKey) -> bytes | None:
        loaded = self._store_of(name.namespace).load_orchestrator(name.session_id, name.owner_id)
        if loaded is None:
            return None
        data, known = orchestrators.build_orchestrator_document(*loaded)
        directory = _directory(name)
        before = self._orchestrators.get(directory)
        self._keep_orchestrator(
            directory, orchestrators.keep_orchestrator_redactions(before, known)
        )
        self._epochs.keep(directory, known.epoch)
        return data

    def _keep_orchestrator(self, directory: tuple[str, ...], known: KnownOrchestrator) -> None:
        before = self._orchestrators.get(directory)
        basis = before.basis if before is not None else None
        known.basis = next_basis(self._store.using, basis, known.session, None)
        self._orchestrators.keep(directory, known)

    # --- verbatim data ------------------------------------------------------------------------

    def _write_verbatim(self, key: str, name: SnapshotKey, data: bytes) -> None:
        store = self._store_of(name.namespace)
        directory = _directory(name)
        known = self._agents.get(directory) if name.scope == keys.AGENT else None
        session = self._session_of(store, name.session_id, known)
        if known is not None:
            data = self._without_redacted(session, name.owner_id, known, data, store)
        elif session.redaction_epoch not in (0, self._epochs.get(directory)):
            raise StaleSessionError(
                f"session {session.id} was redacted, and {name.owner_id!r} may still contain the "
                "redacted text: restore it and try again"
            )
        self._delete_snapshot(name)
        self._store.write_object(key, data, session=session)
        self._epochs.keep(directory, session.redaction_epoch)

    def _write_object(self, key: str, data: bytes) -> None:
        stash = keys.parse_stash(self._store.store.namespace, key)
        if stash is None:
            self._store.write_object(key, data)
            return
        namespace, session_id, agent_id = stash
        store = self._store_of(namespace)
        known = self._agents.get((namespace, session_id, keys.AGENT, agent_id))
        session = self._session_of(store, session_id, known)
        if known is not None:
            data = self._without_redacted(session, agent_id, known, data, store)
        self._store.write_object(key, data, session=session)

    def _session_of(
        self, store: SnapshotStorageStore, session_id: str, known: KnownAgent | None
    ) -> SessionRecord:
        """Open a session; raise if the one that the writer knows was deleted."""
        basis = known.basis.standing() if known is not None and known.basis else None
        if known is None or basis is None or known.restarted:
            return store.store.open(session_id)
        session = store.store.find(session_id)
        if session is None or session.id != known.session:
            raise StaleSessionError("the session was deleted: build the agent again and try again")
        return session

    def _without_redacted(
        self,
        session: SessionRecord,
        agent_id: str,
        known: KnownAgent,
        data: bytes,
        store: SnapshotStorageStore,
    ) -> bytes:
        if known.session == session.id and known.epoch != session.redaction_epoch:
            read_redactions(store, session, agent_id, known)
        return mask_bytes(data, known.corrections.secrets)

    def _drop_verbatim(self, key: str, name: SnapshotKey) -> None:
        session = self._store_of(name.namespace).store.find(name.session_id)
        if session is not None:
            self._store.delete_object(key, session=session)

    def _delete_snapshot(self, name: SnapshotKey) -> bool:
        directory = _directory(name)
        if name.scope == keys.AGENT:
            owner = {"agent_id": name.owner_id}
        else:
            owner = {"multi_agent_id": name.owner_id}
            self._orchestrators.forget(directory)
        store = self._store_of(name.namespace)
        return store.delete_snapshot(name.session_id, name.snapshot_id, **owner)

    def _store_of(self, namespace: str) -> SnapshotStorageStore:
        if namespace == self._store.store.namespace:
            return self._store
        return SnapshotStorageStore(SessionStore(namespace=namespace, **self._bindings))


def _directory(name: SnapshotKey) -> tuple[str, ...]:
    return name.namespace, name.session_id, name.scope, name.owner_id
