"""The store behind an SDK's key-value storage."""

from __future__ import annotations

from ._agent_states import BRANCH_NAMES, LATEST_SNAPSHOT_ID, RUN_STATE
from ._object_bytes import PART_SIZE
from ._objects import ObjectStore
from ._orchestrations import OrchestratorSnapshotStore
from ._snapshot_documents import state_in_document
from ._snapshot_finding import SnapshotFilter, SnapshotIds
from ._snapshot_records import LoadedSnapshot, SaveState, SnapshotWrite
from ._snapshots import SnapshotStore

__all__ = [
    "BRANCH_NAMES",
    "LATEST_SNAPSHOT_ID",
    "PART_SIZE",
    "RUN_STATE",
    "LoadedSnapshot",
    "SaveState",
    "SnapshotFilter",
    "SnapshotIds",
    "SnapshotStorageStore",
    "SnapshotWrite",
    "state_in_document",
]


class SnapshotStorageStore(SnapshotStore, OrchestratorSnapshotStore, ObjectStore):
    """Snapshots and objects of a store."""
