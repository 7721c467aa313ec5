"""Large binaries of messages, kept in a Django storage instead of the database.

Before a message is written, its binaries of ``BLOB_MIN_BYTES`` or more are replaced by references
(``content.blob_refs.BlobRef``); the store restores them when it reads. Within a session, binaries
are deduplicated by their hash. Sessions never share a file, so that a hash reveals nothing about
other sessions, and deleting a session deletes its files. With encryption, a file is encrypted in
chunks (``content.sealed_files``), and its row names the key.

The order of operations keeps files and rows consistent:

* a file is written, under a new unique name, before its row is committed;
* rows change only while the session's row is locked, so that a concurrent write cannot refer to a
  file that is about to be deleted;
* a file is deleted after the deletion of its row is committed, and until then is remembered in a
  row of its own (:mod:`.files_to_delete`).

Therefore a crash leaves at most an orphaned file of a session, which ``manage.py
agent_sessions_gc`` deletes.
"""

from __future__ import annotations

from .blob_rows import delete_unreferenced, update_references
from .blob_streams import Stream, reads_parts, stream_blob
from .extraction import ExtractedPayload, extract_binaries
from .file_resealing import has_files_of, reseal_files
from .restoring import existing_binaries, find_blob, restore_binaries
from .uploads import Uploads, is_enabled

__all__ = [
    "ExtractedPayload",
    "Stream",
    "Uploads",
    "delete_unreferenced",
    "existing_binaries",
    "extract_binaries",
    "find_blob",
    "has_files_of",
    "is_enabled",
    "reads_parts",
    "reseal_files",
    "restore_binaries",
    "stream_blob",
    "update_references",
]
