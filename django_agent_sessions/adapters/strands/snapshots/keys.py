"""Keys of a storage: which of them name a snapshot of which session.

Source: ``strands/session/snapshot_session_manager.py`` and ``strands/_context_manager/stash.py``
(1.62). Below a prefix of the storage's user stand::

    <session id>/scopes/{agent|multiAgent}/<id>/snapshots/snapshot_latest.json
    <session id>/scopes/agent/<id>/snapshots/immutable_history/snapshot_<UUIDv7>.json
    context/<session id>/scopes/agent/<id>/…

The prefix ``session/``, which Strands takes by itself, stands for the storage's own namespace of
sessions; any other is a namespace below it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from strands.storage.storage import _normalize_key, _normalize_prefix

from django_agent_sessions.exceptions import InvalidIdError
from django_agent_sessions.ids import validate_id, validate_namespace
from django_agent_sessions.store.snapshot_finding import SnapshotName, SnapshotPlace

AGENT = "agent"
MULTI_AGENT = "multiAgent"

_OWN = "session"
_SNAPSHOT = re.compile(
    r"(?P<prefix>.+)/(?P<session>[^/]+)/scopes/"
    r"(?:(?P<scope>agent|multiAgent)/(?P<id>[^/]+)/snapshots/snapshot_latest\.json"
    r"|agent/(?P<agent>[^/]+)/snapshots/immutable_history/snapshot_(?P<snapshot>"
    r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12})\.json)\Z",
    re.DOTALL,
)
_STASH = re.compile(
    r"(?:(?P<prefix>.+)/)?context/(?P<session>[^/]+)/scopes/agent/(?P<agent>[^/]+)/", re.DOTALL
)

normalized = _normalize_key
normalized_prefix = _normalize_prefix


@dataclass(frozen=True, slots=True)
class SnapshotKey:
    """What a key says."""

    namespace: str
    session_id: str
    scope: str
    owner_id: str
    snapshot_id: str


def parse(base: str, key: str) -> SnapshotKey | None:
    """Reads a key."""
    found = _SNAPSHOT.match(key)
    if found is None:
        return None
    namespace = _namespace(base, found["prefix"])
    name = found["id"] or found["agent"]
    if namespace is None or not (_is_id(found["session"]) and _is_id(name)):
        return None
    return SnapshotKey(
        namespace, found["session"], found["scope"] or AGENT, name, found["snapshot"] or ""
    )


def stashed(base: str, key: str) -> tuple[str, str, str] | None:
    """Reads the key of what a context manager put aside."""
    found = _STASH.match(key)
    if found is None:
        return None
    namespace = base if found["prefix"] is None else _namespace(base, found["prefix"])
    if namespace is None or not _is_id(found["session"]):
        return None
    return namespace, found["session"], found["agent"]


def key_of(base: str, name: SnapshotName) -> str | None:
    """Writes the key of a snapshot."""
    if name.namespace == base:
        prefix = _OWN
    else:
        prefix = name.namespace[len(base) + 1 :] if base else name.namespace
    scope = AGENT if name.agent_id is not None else MULTI_AGENT
    file = "snapshot_latest.json"
    if name.snapshot_id:
        file = f"immutable_history/snapshot_{name.snapshot_id}.json"
    owner = name.agent_id if name.agent_id is not None else name.multi_agent_id
    key = f"{prefix}/{name.session_id}/scopes/{scope}/{owner}/snapshots/{file}"
    found = parse(base, key)
    # What REST and the admin made may have names that are no part of a key.
    same = found is not None and (found.namespace, found.session_id, found.owner_id) == (
        name.namespace,
        name.session_id,
        owner,
    )
    return key if same else None


def places(base: str, prefix: str) -> list[SnapshotPlace]:
    """Says where snapshots are whose keys begin in some way."""
    found = []
    parts = prefix.split("/")
    for depth in range(1, len(parts)):
        namespace = _namespace(base, "/".join(parts[:depth]))
        if namespace is not None:
            rest = parts[depth:]
            found.append(_place(namespace, rest))
    if _OWN.startswith(prefix):
        found.append(SnapshotPlace(base))
    beginning = f"{base}/{prefix}" if base else prefix
    found.append(SnapshotPlace(beginning, below=True))
    return found


def _place(namespace: str, rest: list[str]) -> SnapshotPlace:
    if len(rest) == 1:
        return SnapshotPlace(namespace, session_prefix=rest[0])
    # <session>/scopes/agent/<id>/…
    agent = rest[3] if len(rest) > 4 and rest[1:3] == ["scopes", AGENT] else None
    return SnapshotPlace(namespace, session_id=rest[0], agent_id=agent)


def _namespace(base: str, prefix: str) -> str | None:
    if prefix == _OWN:
        return base
    try:
        return validate_namespace(f"{base}/{prefix}" if base else prefix)
    except InvalidIdError:
        return None


def _is_id(value: str) -> bool:
    try:
        validate_id(value)
    except InvalidIdError:
        return False
    return True
