"""Large binaries of messages, kept in a Django storage instead of the database.

On its way into a session, a message's binaries of ``BLOB_MIN_BYTES`` or more are replaced by
references (:class:`~django_agent_sessions.references.BlobRef`); the store puts them back when it
reads. A binary is known by its hash within one session and is stored there once. Sessions never
share a file: then nobody learns by a hash what another said, and a deletion is one.

The order of things is what keeps them together:

* a file is complete in the storage before the row that names it is committed, under a name that
  was never used before;
* rows change only while the session's row is locked, so that a file that nobody refers to any more
  cannot be found by a message that is being written;
* a file is deleted after the commit that took its row away.

So a crash at any moment leaves at most a file without a row, which ``manage.py agent_sessions_gc``
finds.
"""

from __future__ import annotations

from .extraction import Extracted, extracted
from .reading import MessageGoneError, find_blob, found_in, restored
from .rows import drop_messages, note_uses
from .streaming import Stream, stream_blob
from .uploads import Uploads, in_use

__all__ = [
    "Extracted",
    "MessageGoneError",
    "Stream",
    "Uploads",
    "drop_messages",
    "extracted",
    "find_blob",
    "found_in",
    "in_use",
    "note_uses",
    "restored",
    "stream_blob",
]
