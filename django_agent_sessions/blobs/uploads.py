"""Uploads of the binaries of new messages."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple
from uuid import UUID

from django.db import Error, transaction

from django_agent_sessions import conf
from django_agent_sessions.blobs.file_storage import in_parallel
from django_agent_sessions.content import codec
from django_agent_sessions.content.blob_refs import BlobRef
from django_agent_sessions.db.db_errors import RetryError, is_conflict, is_uncertain
from django_agent_sessions.exceptions import PayloadError
from django_agent_sessions.models import Blob

from . import blob_files, files_to_delete
from .blob_rows import create_references, session_blobs
from .files_to_delete import StoredFile


def is_enabled() -> bool:
    """Return whether large binaries are kept in a storage."""
    return conf.get_settings().BLOB_STORAGE is not None


class _File(NamedTuple):
    """A file in a storage, and the key that encrypts it."""

    storage: str
    name: str
    key: UUID | None = None


class Uploads:
    """The binaries of one write, which may be retried.

    ``uses`` has the hashes of all binaries to which each message refers, by its primary key;
    ``binaries`` are those that were extracted from the messages.
    """

    def __init__(
        self,
        using: str,
        session: UUID,
        uses: Mapping[UUID, Collection[str]],
        binaries: Mapping[BlobRef, bytes],
        *,
        known: bool = False,
    ) -> None:
        self._using = using
        self._session = session
        self._uses = uses
        self._data = {ref.sha256: (ref, data) for ref, data in binaries.items()}
        self._hashes = set(chain.from_iterable(uses.values()))
        self._known = known
        # Uploaded files without a committed row, by hash.
        self._files: dict[str, _File] = {}
        # Names of the lost files of existing rows, by hash.
        self._lost: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._hashes)

    @contextlib.contextmanager
    def attempt(self) -> Iterator[None]:
        """Upload missing binaries; context manager around the transaction of one attempt.

        If the transaction failed, the files are deleted, or kept for a retry. If its outcome is
        unknown, the files are kept, because rows may name them; ``manage.py agent_sessions_gc``
        deletes orphaned ones.
        """
        self.prepare()
        try:
            yield
        except RetryError:
            # Keep the files for the retry.
            raise
        except Error as error:
            if is_uncertain(error):
                self._files = {}
            elif not is_conflict(error):
                self.discard()
            raise
        except Exception:
            self.discard()
            raise

    def prepare(self) -> None:
        """Upload the binaries that the session does not have; call before the transaction."""
        wanted = self._data.keys() - self._files.keys()
        if not wanted or (alias := conf.get_settings().BLOB_STORAGE) is None:
            return
        existing = session_blobs(self._using, self._session, wanted)
        # The data of lost files is available again.
        self._lost = {blob.sha256: blob.file for blob in blob_files.find_lost(existing.values())}
        missing = (wanted - existing.keys()) | self._lost.keys()
        if not missing:
            return
        # Here, because keys are read from the database.
        ciphers = {sha256: codec.file_cipher(self._session, sha256) for sha256 in sorted(missing)}
        new = {
            sha256: _File(alias, blob_files.new_name(self._session), cipher.key if cipher else None)
            for sha256, cipher in ciphers.items()
        }

        def upload(sha256: str) -> None:
            file, cipher, data = new[sha256], ciphers[sha256], self._data[sha256][1]
            name = blob_files.save(alias, file.name, cipher.seal(data) if cipher else data)
            self._files[sha256] = file._replace(name=name)

        # A file may exist although writing it raised an error.
        self._files |= new
        failures = [error for error in in_parallel(upload, list(new)) if error is not None]
        if failures:
            self.discard()
            raise failures[0]

    def store(self) -> None:
        """Create the rows; call in the transaction, after locking the session's row."""
        stored = False

        def keep_files() -> None:
            if stored:
                self._files = {}

        # First hook: an error of another one after the commit must not delete the files.
        transaction.on_commit(keep_files, self._using)
        existing = session_blobs(self._using, self._session, self._hashes)
        missing = self._hashes - existing.keys()
        if unknown := missing - self._data.keys():
            if not self._known:
                raise PayloadError(
                    f"a message refers to {len(unknown)} binaries that session {self._session} "
                    "does not have"
                )
            missing -= unknown
        if not missing <= self._files.keys():
            raise RetryError
        self._replace_lost_files(existing)
        Blob.objects.using(self._using).bulk_create(self._row(sha256) for sha256 in sorted(missing))
        # Another process, or an earlier attempt of this one, stored the same binary.
        superfluous = [
            self._files[sha256]
            for sha256 in self._files.keys() & existing.keys()
            if self._files[sha256].name != existing[sha256].file
        ]
        self._delete_after_commit(superfluous)
        stored = True

    def _replace_lost_files(self, existing: Mapping[str, Blob]) -> None:
        """Update rows whose file was lost to the newly uploaded file."""
        for sha256 in self._lost.keys() & self._files.keys() & existing.keys():
            row = existing[sha256]
            if row.file != self._lost[sha256]:
                # Another process has replaced the file.
                continue
            self._delete_after_commit([_File(row.storage, row.file)])
            row.storage, row.file, row.data_key = self._files[sha256]
            row.save(using=self._using, update_fields=["storage", "file", "data_key"])

    def _delete_after_commit(self, files: Iterable[_File]) -> None:
        files_to_delete.delete_files_after_commit(
            self._using, (StoredFile(self._session, alias, name) for alias, name, _ in files)
        )

    def create_references(self) -> None:
        """Create references from the new messages to their binaries; call in the transaction."""
        uses = {(message, sha256) for message, hashes in self._uses.items() for sha256 in hashes}
        create_references(self._using, self._session, uses)

    def discard(self) -> None:
        """Delete the uploaded files after a rollback."""
        _delete(self._files.values())
        self._files = {}

    def _row(self, sha256: str) -> Blob:
        reference, _ = self._data[sha256]
        alias, name, key = self._files[sha256]
        return Blob(
            session_id=self._session,
            sha256=sha256,
            size=reference.size,
            media_type=reference.media_type,
            storage=alias,
            file=name,
            data_key=key,
        )


def _delete(written: Iterable[_File]) -> None:
    for alias, name, _ in written:
        blob_files.delete_stored_files(alias, [name])
