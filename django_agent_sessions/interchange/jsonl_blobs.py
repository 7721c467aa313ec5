"""The large binaries of a session, in its JSON line or in a directory, each once."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

from django.core.exceptions import SuspiciousFileOperation

from django_agent_sessions import conf
from django_agent_sessions.blobs import stream_blob
from django_agent_sessions.blobs.file_storage import open_regular_file
from django_agent_sessions.blobs.placeholders import with_placeholders
from django_agent_sessions.content import exact_json
from django_agent_sessions.content.blob_refs import DATA_URL_PREFIX, references, resolve
from django_agent_sessions.exceptions import BlobNotFoundError, PayloadError
from django_agent_sessions.models import Blob
from django_agent_sessions.models.fields import CorruptPayload, decode_payload

logger = logging.getLogger("django_agent_sessions")

_HASH = re.compile(r"[0-9a-f]{64}")
_MAX_LOST = 1000
"""Maximal number of missing references per message, because each placeholder copies it."""

OnLost = Callable[[BlobNotFoundError], None]
"""Called for each missing or damaged binary."""


OnBlob = Callable[[Blob], object]
"""Called for each binary whose file the caller writes."""


def blob_directory(path: str | Path) -> Path | None:
    """Return the default directory for the binaries of an export; None for standard output."""
    name = str(path)
    if name == "-":
        return None
    return Path(name.removesuffix(".gz").removesuffix(".jsonl") + ".blobs")


def hashes(text: str | None) -> set[str]:
    """Return the hashes of the binaries in a stored payload."""
    if text is None or not exact_json.has_blobs(text):
        return set()
    value = decode_payload(text)
    if isinstance(value, CorruptPayload):
        return set()
    return {reference.sha256 for _, reference in references(value)}


def each_blob(
    session: UUID,
    wanted: Collection[str],
    alias: str,
    beside: Path | OnBlob | None = None,
    lost: OnLost | None = None,
) -> Iterator[str]:
    """Yield the JSON of binaries of a session."""
    comma = ""
    for sha256 in sorted(wanted):
        blob = Blob.objects.using(alias).filter(session=session, sha256=sha256).first()
        head: dict[str, Any] = {"sha256": sha256}
        if blob is not None:
            head |= {"size": blob.size, "media_type": blob.media_type}
        try:
            if blob is None:
                raise BlobNotFoundError(
                    "a message refers to a binary that the session does not have"
                )
            member = _member(blob, beside / str(session) if isinstance(beside, Path) else beside)
        except BlobNotFoundError as error:
            if lost is None:
                # The file itself shows it; the log informs the operators, too.
                logger.warning("Exported without a binary: %s", error)
            else:
                lost(error)
            member = '"data":null' if blob is None or beside is None else '"file":null'
        yield f"{comma}{json.dumps(head)[:-1]}, {member}}}"
        comma = ","


class LineBinaries(Mapping[str, bytes]):
    """The binaries of an imported line by hash; those with a wrong hash are missing."""

    def __init__(self, found: Any, beside: Path | None = None, folder: str = "") -> None:
        rows = found if isinstance(found, list) else []
        valid_rows = [row for row in rows if isinstance(row, dict) and _is_hash(row.get("sha256"))]
        self._inline: dict[str, bytes] = {
            row["sha256"]: row["data"] for row in valid_rows if isinstance(row.get("data"), bytes)
        }
        self._directory, self._folder = beside, folder
        # Only hashes, so that the file cannot refer to other paths.
        self._beside: set[str] = {
            row["sha256"]
            for row in valid_rows
            if beside is not None and folder and row.get("file") is True
        }

    def __getitem__(self, sha256: str) -> bytes:
        data = self._inline.get(sha256)
        if data is None:
            data = self._read(sha256)
        if hashlib.sha256(data).hexdigest() != sha256:
            raise KeyError(sha256)
        return data

    def _read(self, sha256: str) -> bytes:
        if self._directory is None or sha256 not in self._beside:
            raise KeyError(sha256)
        settings = conf.get_settings()
        # A larger one is accepted neither in a storage nor in a message.
        most = max(settings.MAX_BLOB_BYTES, settings.MAX_PAYLOAD_BYTES)
        # The name of the directory is derived from the file's: it must not be a link either.
        root, name = self._directory.parent, self._directory.name
        try:
            with open_regular_file(root, f"{name}/{self._folder}/{sha256}") as file:
                data = file.read(most + 1)
        except (OSError, SuspiciousFileOperation):
            raise KeyError(sha256) from None
        if len(data) > most:
            raise KeyError(sha256)
        return data

    def __iter__(self) -> Iterator[str]:
        return iter(self._inline.keys() | self._beside)

    def __len__(self) -> int:
        return len(self._inline.keys() | self._beside)


def with_binaries(value: Any, contents: Mapping[str, bytes], dialect: str, lost: set[str]) -> Any:
    """Return an imported payload with its binaries; raise if it becomes too large.

    A short line may refer to the same binary many times. A binary that will be stored in a storage
    is stored once, so that its first use does not count.
    """
    settings = conf.get_settings()
    remaining = settings.MAX_PAYLOAD_BYTES
    found: dict[str, bytes] = {}
    lost_count = 0
    for path, reference in references(value):
        sha256, prefix = reference.sha256, reference.prefix
        if prefix and not DATA_URL_PREFIX.fullmatch(prefix):
            raise PayloadError("its reference to a binary is invalid")
        first = sha256 not in found
        data = None if sha256 in lost else contents.get(sha256) if first else found[sha256]
        if data is None:
            if not path:
                raise PayloadError("it consists of a binary that is not in the file")
            lost.add(sha256)
            lost_count += 1
            if lost_count > _MAX_LOST:
                raise PayloadError(
                    f"it has more than {_MAX_LOST} references to binaries that are not in the file"
                )
            continue
        found[sha256] = data
        if not first or settings.BLOB_STORAGE is None:
            remaining -= len(data) if prefix is None else len(prefix) + len(data) * 4 // 3
        if remaining < 0:
            raise PayloadError(
                "its binaries together are larger than MAX_PAYLOAD_BYTES, which is "
                f"{settings.MAX_PAYLOAD_BYTES}"
            )
    if lost_count:
        value = with_placeholders(dialect, value, lost)
    return resolve(value, found) if found else value


def _is_hash(value: Any) -> bool:
    return isinstance(value, str) and bool(_HASH.fullmatch(value))


def _member(blob: Blob, place: Path | OnBlob | None) -> str:
    """Return the member of a binary's JSON object that contains the data or refers to its file."""
    if place is not None:
        if isinstance(place, Path):
            _write_file(blob, place)
        else:
            place(blob)
        return '"file":true'
    data = b"".join(stream_blob(blob))
    return f'"data":{{"$bytes":"{base64.b64encode(data).decode()}"}}'


def _write_file(blob: Blob, directory: Path) -> None:
    """Write a binary into a directory, unless it exists there."""
    path = directory / blob.sha256
    if _has_content(path, blob):
        return
    directory.mkdir(parents=True, exist_ok=True)
    temporary = directory / f"{blob.sha256}.part"
    try:
        with temporary.open("wb") as file:
            file.writelines(stream_blob(blob))
        # Atomic: the final name never has a partial file.
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _has_content(path: Path, blob: Blob) -> bool:
    """Return whether a file exists and has the binary's content."""
    if not path.is_file() or path.stat().st_size != blob.size:
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == blob.sha256
