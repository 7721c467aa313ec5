"""Keys of a storage that name a snapshot of a session.

Source: ``strands/session/snapshot_session_manager.py`` and ``strands/_context_manager/stash.py``
(1.62). Under a prefix that the storage's user chooses::

    <session id>/scopes/{agent|multiAgent}/<id>/snapshots/snapshot_latest.json
    <session id>/scopes/agent/<id>/snapshots/immutable_history/snapshot_<UUIDv7>.json
    context/<session id>/scopes/agent/<id>/…

Strands' default prefix ``session/`` is the storage's own namespace of sessions; any other prefix is
a namespace below it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from strands.types.exceptions import StorageError

from django_agent_sessions.exceptions import InvalidIdError
from django_agent_sessions.store.snapshots import SnapshotFilter, SnapshotIds
from django_agent_sessions.values.ids import validate_id, validate_namespace

AGENT = "agent"
MULTI_AGENT = "multiAgent"

_DEFAULT_PREFIX = "session"
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


@dataclass(frozen=True, slots=True)
class SnapshotKey:
    """The parts of a key."""

    namespace: str
    session_id: str
    scope: str
    owner_id: str
    snapshot_id: str


def normalized(key: str) -> str:
    """Normalize a key as Strands' own storages do: single slashes, and none at its ends."""
    if key := normalized_prefix(key).rstrip("/"):
        return key
    raise StorageError("Storage key must not be empty")


def normalized_prefix(prefix: str) -> str:
    """Normalize the beginning of keys, which may be empty, and may end with a slash."""
    if "\\" in prefix:
        raise StorageError(f"Invalid storage key {prefix!r}: backslashes are not allowed")
    single = re.sub(r"/+", "/", prefix).lstrip("/")
    if ".." in single.split("/"):
        raise StorageError(f"Invalid storage key {prefix!r}: '..' path segments are not allowed")
    return single


def parse(base: str, key: str) -> SnapshotKey | None:
    """Parse a key; None if it does not name a snapshot."""
    match = _SNAPSHOT.match(key)
    if match is None:
        return None
    namespace = _namespace(base, match["prefix"])
    name = match["id"] or match["agent"]
    if namespace is None or not (_is_id(match["session"]) and _is_id(name)):
        return None
    return SnapshotKey(
        namespace, match["session"], match["scope"] or AGENT, name, match["snapshot"] or ""
    )


def parse_stash(base: str, key: str) -> tuple[str, str, str] | None:
    """Parse the key of a context manager's stash: namespace, session id and agent id."""
    match = _STASH.match(key)
    if match is None:
        return None
    namespace = base if match["prefix"] is None else _namespace(base, match["prefix"])
    if namespace is None or not _is_id(match["session"]):
        return None
    return namespace, match["session"], match["agent"]


def key_of(base: str, name: SnapshotIds) -> str | None:
    """Return the key of a snapshot; None if its names cannot be part of a key."""
    if name.namespace == base:
        prefix = _DEFAULT_PREFIX
    else:
        prefix = name.namespace[len(base) + 1 :] if base else name.namespace
    scope = AGENT if name.agent_id is not None else MULTI_AGENT
    file = "snapshot_latest.json"
    if name.snapshot_id:
        file = f"immutable_history/snapshot_{name.snapshot_id}.json"
    owner = name.agent_id if name.agent_id is not None else name.multi_agent_id
    key = f"{prefix}/{name.session_id}/scopes/{scope}/{owner}/snapshots/{file}"
    parsed = parse(base, key)
    # Sessions that were created by REST or the admin may have ids that a key cannot contain.
    same = parsed is not None and (parsed.namespace, parsed.session_id, parsed.owner_id) == (
        name.namespace,
        name.session_id,
        owner,
    )
    return key if same else None


def snapshot_places(base: str, prefix: str) -> list[SnapshotFilter]:
    """Return the namespaces, sessions and agents whose snapshot keys may begin with a prefix."""
    result = []
    parts = prefix.split("/")
    for depth in range(1, len(parts)):
        namespace = _namespace(base, "/".join(parts[:depth]))
        if namespace is not None:
            rest = parts[depth:]
            result.append(_snapshot_place(namespace, rest))
    if _DEFAULT_PREFIX.startswith(prefix):
        result.append(SnapshotFilter(base))
    beginning = f"{base}/{prefix}" if base else prefix
    result.append(SnapshotFilter(beginning, include_nested=True))
    return result


def _snapshot_place(namespace: str, rest: list[str]) -> SnapshotFilter:
    if len(rest) == 1:
        return SnapshotFilter(namespace, session_prefix=rest[0])
    # <session>/scopes/agent/<id>/…
    agent = rest[3] if len(rest) > 4 and rest[1:3] == ["scopes", AGENT] else None
    return SnapshotFilter(namespace, session_id=rest[0], agent_id=agent)


def _namespace(base: str, prefix: str) -> str | None:
    if prefix == _DEFAULT_PREFIX:
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
