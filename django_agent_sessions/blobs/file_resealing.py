"""Bring the files of binaries into the form in which they would be written now."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from uuid import UUID

from django.db import Error, transaction

from django_agent_sessions.content import codec
from django_agent_sessions.db.db_errors import is_uncertain
from django_agent_sessions.exceptions import BlobNotFoundError, DestroyedKeyError
from django_agent_sessions.models import Blob, Session

from . import blob_files, files_to_delete
from .blob_streams import stream_blob
from .files_to_delete import StoredFile

logger = logging.getLogger("django_agent_sessions")

_BATCH = 100


def reseal_files(using: str, keys: Sequence[str] | None = None) -> Iterator[tuple[int, int, int]]:
    """Rewrite the files that have not the present form.

    Yields for each 1, whether it was rewritten, and whether its data key was destroyed.

    With the ids of ``keys``, only the files are read that one of them encrypts. A file that is
    missing or damaged stays, and is not counted then: no key brings it back. A new file gets
    another name, and the old one is deleted after its row names the new one.
    """
    rows = Blob.objects.using(using).order_by("pk")
    if keys is not None:
        rows = rows.filter(data_key__in=list(map(UUID, keys)))
    batch = list(rows[:_BATCH])
    while batch:
        for blob in batch:
            if _is_current(blob):
                yield 1, 0, 0
                continue
            try:
                data = b"".join(stream_blob(blob))
            except BlobNotFoundError as error:
                logger.warning("%s", error)
                yield int(keys is None), 0, 0
                continue
            except DestroyedKeyError:
                yield 1, 0, 1
                continue
            yield 1, int(_replace_file(using, blob, data)), 0
        batch = list(rows.filter(pk__gt=batch[-1].pk)[:_BATCH])


def has_files_of(using: str, keys: Sequence[str]) -> bool:
    """Return whether one of some keys encrypts a file."""
    return Blob.objects.using(using).filter(data_key__in=list(map(UUID, keys))).exists()


def _is_current(blob: Blob) -> bool:
    cipher = codec.file_cipher(blob.session_id, blob.sha256)
    return blob.data_key == (None if cipher is None else cipher.key)


def _replace_file(using: str, blob: Blob, data: bytes) -> bool:
    """Store the content again, unless the row has changed meanwhile; return whether it was."""
    cipher = codec.file_cipher(blob.session_id, blob.sha256)
    new = blob_files.new_name(blob.session_id)
    name = blob_files.save(blob.storage, new, data if cipher is None else cipher.seal(data))
    try:
        with transaction.atomic(using):
            # As whatever changes a file does.
            Session.objects.using(using).select_for_update().filter(pk=blob.session_id).only(
                "pk"
            ).first()
            same = Blob.objects.using(using).filter(pk=blob.pk, file=blob.file)
            written = bool(same.update(file=name, data_key=cipher and cipher.key))
            if written:
                files_to_delete.delete_files_after_commit(
                    using, [StoredFile(blob.session_id, blob.storage, blob.file)]
                )
    except Error as error:
        # A row may name the file if the outcome is not known.
        if not is_uncertain(error):
            blob_files.delete_stored_files(blob.storage, [name])
        raise
    if not written:
        blob_files.delete_stored_files(blob.storage, [name])
    return written
