"""The store of an SDK's storage, which knows bytes under keys."""

from __future__ import annotations

from . import SessionStore
from .objects import ObjectStore
from .snapshots import SnapshotStore


class KeyedStore(SnapshotStore, ObjectStore, SessionStore):
    """A :class:`SessionStore` that also keeps what a storage is given: snapshots, and any bytes."""
