"""Binaries on their way into a session."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol
from uuid import UUID

from django.db import Error, transaction

from django_agent_sessions import conf
from django_agent_sessions.exceptions import PayloadError
from django_agent_sessions.models import Blob
from django_agent_sessions.references import BlobRef
from django_agent_sessions.storing import in_parallel
from django_agent_sessions.transient import TryAgainError, is_conflict, is_uncertain

from . import files
from .rows import of_session, refer


def in_use() -> bool:
    """Tells whether large binaries go to a storage."""
    return conf.get_settings().BLOB_STORAGE is not None


class Holder(Protocol):
    """A message on its way into the database."""

    @property
    def id(self) -> UUID:
        """Its primary key."""
        ...

    @property
    def binaries(self) -> Mapping[BlobRef, bytes]:
        """The binaries that were taken out of it."""
        ...

    @property
    def hashes(self) -> set[str]:
        """The hashes of all binaries that it refers to."""
        ...


class Uploads:
    """The binaries of one write, which may be tried several times."""

    def __init__(
        self, using: str, session: UUID, messages: Sequence[Holder], *, known: bool = False
    ) -> None:
        self._using = using
        self._session = session
        self._messages = messages
        self._data: dict[str, tuple[BlobRef, bytes]] = {
            reference.sha256: (reference, data)
            for message in messages
            for reference, data in message.binaries.items()
        }
        self._hashes = {sha256 for message in messages for sha256 in message.hashes}
        self._known = known
        # Written, and not named by a row that is committed.
        self._files: dict[str, tuple[str, str]] = {}
        # Of rows whose file is lost: the name of that file.
        self._lost: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._hashes)

    @contextlib.contextmanager
    def attempt(self) -> Iterator[None]:
        """Uploads what the session does not have, and is around the transaction of one try.

        If the transaction certainly failed, what was uploaded is deleted, or kept for the next try
        where that may succeed. If nobody can say whether it was committed, the files are left as
        they are: the rows may name them, and where not, ``manage.py agent_sessions_gc`` finds them.
        """
        self.prepare()
        try:
            yield
        except TryAgainError:
            # What was uploaded is for the next try.
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
        """Uploads what the session does not have; before the transaction."""
        wanted = self._data.keys() - self._files.keys()
        if not wanted or (alias := conf.get_settings().BLOB_STORAGE) is None:
            return
        there = of_session(self._using, self._session, wanted)
        # What was lost is at hand again.
        self._lost = {blob.sha256: blob.file for blob in files.lost(there.values())}
        missing = (wanted - there.keys()) | self._lost.keys()
        if not missing:
            return
        names = {sha256: files.new_name(self._session) for sha256 in sorted(missing)}

        def upload(sha256: str) -> None:
            files.save(alias, names[sha256], self._data[sha256][1])

        # A file may be there although its writing failed.
        self._files |= {sha256: (alias, name) for sha256, name in names.items()}
        failures = [error for error in in_parallel(upload, list(names)) if error is not None]
        if failures:
            self.discard()
            raise failures[0]

    def store(self) -> None:
        """Adds the rows; in the transaction, after the session's row was locked."""
        stored = False

        def keep() -> None:
            if stored:
                self._files = {}

        # Before any other hook: what fails after the commit must not take the files away.
        transaction.on_commit(keep, self._using)
        there = of_session(self._using, self._session, self._hashes)
        missing = self._hashes - there.keys()
        if unknown := missing - self._data.keys():
            if not self._known:
                raise PayloadError(
                    f"a message refers to {len(unknown)} binaries that session {self._session} "
                    "does not have"
                )
            missing -= unknown
        if not missing <= self._files.keys():
            raise TryAgainError
        self._mend(there)
        Blob.objects.using(self._using).bulk_create(self._row(sha256) for sha256 in sorted(missing))
        # Somebody else was faster with the same binary; or an earlier try of our own was.
        superfluous = [
            self._files[sha256]
            for sha256 in self._files.keys() & there.keys()
            if self._files[sha256][1] != there[sha256].file
        ]
        if superfluous:
            transaction.on_commit(lambda: _delete(superfluous), self._using, robust=True)
        stored = True

    def _mend(self, there: Mapping[str, Blob]) -> None:
        """Lets rows whose file was lost name the one that was written instead."""
        for sha256 in self._lost.keys() & self._files.keys() & there.keys():
            row = there[sha256]
            if row.file != self._lost[sha256]:
                # Somebody else was faster.
                continue
            gone = (row.storage, row.file)
            row.storage, row.file = self._files[sha256]
            row.save(using=self._using, update_fields=["storage", "file"])
            transaction.on_commit(functools.partial(_delete, [gone]), self._using, robust=True)

    def refer(self) -> None:
        """Says that these messages, which are new, use them; in the transaction."""
        uses = {(message.id, sha256) for message in self._messages for sha256 in message.hashes}
        refer(self._using, self._session, uses)

    def discard(self) -> None:
        """Deletes what was uploaded, because nothing of it was committed."""
        _delete(self._files.values())
        self._files = {}

    def _row(self, sha256: str) -> Blob:
        reference, _ = self._data[sha256]
        alias, name = self._files[sha256]
        return Blob(
            session_id=self._session,
            sha256=sha256,
            size=reference.size,
            media_type=reference.media_type,
            storage=alias,
            file=name,
        )


def _delete(written: Iterable[tuple[str, str]]) -> None:
    for alias, name in written:
        files.delete(alias, [name])
