"""The store behind an SDK's key-value storage."""

from __future__ import annotations

from . import SessionStore
from .objects import ObjectStore
from .snapshots import SnapshotStore


class SnapshotStorageStore(SnapshotStore, ObjectStore, SessionStore):
    """A :class:`SessionStore` that also stores snapshots and objects."""
