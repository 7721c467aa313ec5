"""The large binaries of a session, in its line of JSON Lines or beside it: each once."""

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

from django_agent_sessions import conf, payloads
from django_agent_sessions.blobs import stream_blob
from django_agent_sessions.blobs.placeholders import with_placeholders
from django_agent_sessions.exceptions import BlobNotFoundError, PayloadError
from django_agent_sessions.fields import CorruptPayload, read
from django_agent_sessions.models import Blob
from django_agent_sessions.references import DATA_URL, references, resolved

logger = logging.getLogger("django_agent_sessions")

_HASH = re.compile(r"[0-9a-f]{64}")
_MOST_LOST = 1000
"""In how many places a message may lack a binary: a text in the place of each copies the rest."""

Lost = Callable[[BlobNotFoundError], None]
"""Is told of each binary that is missing or damaged."""


def blobs_beside(path: str | Path) -> Path | None:
    """Names the directory in which an export's binaries are, if they are not in it."""
    name = str(path)
    if name == "-":
        return None
    return Path(name.removesuffix(".gz").removesuffix(".jsonl") + ".blobs")


def hashes(text: str | None) -> set[str]:
    """Finds out which binaries a stored payload refers to."""
    if text is None or not payloads.has_blobs(text):
        return set()
    value = read(text)
    if isinstance(value, CorruptPayload):
        return set()
    return {reference.sha256 for _, reference in references(value)}


def each_blob(
    session: UUID,
    wanted: Collection[str],
    alias: str,
    beside: Path | None = None,
    lost: Lost | None = None,
) -> Iterator[str]:
    """Writes binaries of a session."""
    comma = ""
    for sha256 in sorted(wanted):
        blob = Blob.objects.using(alias).filter(session=session, sha256=sha256).first()
        head: dict[str, Any] = {"sha256": sha256}
        if blob is not None:
            head |= {"size": blob.size, "media_type": blob.media_type}
        try:
            if blob is None:
                raise BlobNotFoundError("a message refers to a binary that the session has not")
            member = _member(blob, None if beside is None else beside / str(session))
        except BlobNotFoundError as error:
            if lost is None:
                # Who downloads a file reads it in there; who runs the site is to know, too.
                logger.warning("exported without a binary: %s", error)
            else:
                lost(error)
            member = '"data":null' if blob is None or beside is None else '"file":null'
        yield f"{comma}{json.dumps(head)[:-1]}, {member}}}"
        comma = ","


class Contents(Mapping[str, bytes]):
    """The binaries of a line that was read, if they are what they say, by their hashes."""

    def __init__(self, found: Any, beside: Path | None = None) -> None:
        rows = found if isinstance(found, list) else []
        named = [row for row in rows if isinstance(row, dict) and _is_hash(row.get("sha256"))]
        self._inline: dict[str, bytes] = {
            row["sha256"]: row["data"] for row in named if isinstance(row.get("data"), bytes)
        }
        self._beside: dict[str, Path] = {
            # A hash and nothing else: no name in a file leads anywhere.
            row["sha256"]: beside / row["sha256"]
            for row in named
            if beside is not None and row.get("file") is True
        }

    def __getitem__(self, sha256: str) -> bytes:
        data = self._inline.get(sha256)
        if data is None:
            try:
                data = self._beside[sha256].read_bytes()
            except OSError:
                raise KeyError(sha256) from None
        if hashlib.sha256(data).hexdigest() != sha256:
            raise KeyError(sha256)
        return data

    def __iter__(self) -> Iterator[str]:
        return iter({**self._inline, **self._beside})

    def __len__(self) -> int:
        return len(self._inline.keys() | self._beside.keys())


def with_binaries(value: Any, contents: Mapping[str, bytes], dialect: str, lost: set[str]) -> Any:
    """Puts binaries into a payload that came from elsewhere, if it does not grow too large by that.

    A short line may refer to one binary any number of times. What will stand in a storage stands
    there once, so its first use is free.
    """
    settings = conf.get_settings()
    room = settings.MAX_PAYLOAD_BYTES
    found: dict[str, bytes] = {}
    places = 0
    for path, reference in references(value):
        sha256, prefix = reference.sha256, reference.prefix
        if prefix and not DATA_URL.fullmatch(prefix):
            raise PayloadError("it refers to a binary as no message does")
        first = sha256 not in found
        data = None if sha256 in lost else contents.get(sha256) if first else found[sha256]
        if data is None:
            if not path:
                raise PayloadError("it is nothing but a binary that is not in the file")
            lost.add(sha256)
            places += 1
            if places > _MOST_LOST:
                raise PayloadError(
                    f"it refers in more than {_MOST_LOST} places to binaries that are not there"
                )
            continue
        found[sha256] = data
        if not first or settings.BLOB_STORAGE is None:
            room -= len(data) if prefix is None else len(prefix) + len(data) * 4 // 3
        if room < 0:
            raise PayloadError(
                "its binaries are larger together than MAX_PAYLOAD_BYTES, which allows "
                f"{settings.MAX_PAYLOAD_BYTES}"
            )
    if places:
        value = with_placeholders(dialect, value, lost)
    return resolved(value, found) if found else value


def _is_hash(value: Any) -> bool:
    return isinstance(value, str) and bool(_HASH.fullmatch(value))


def _member(blob: Blob, directory: Path | None) -> str:
    """Writes a binary, and what its object says of it."""
    if directory is not None:
        _put(blob, directory)
        return '"file":true'
    data = b"".join(stream_blob(blob))
    return f'"data":{{"$bytes":"{base64.b64encode(data).decode()}"}}'


def _put(blob: Blob, directory: Path) -> None:
    """Writes a binary into a directory, unless it is there."""
    path = directory / blob.sha256
    if _holds(path, blob):
        return
    directory.mkdir(parents=True, exist_ok=True)
    made = directory / f"{blob.sha256}.part"
    try:
        with made.open("wb") as file:
            file.writelines(stream_blob(blob))
        # Under its name it is there as a whole or not at all.
        made.replace(path)
    finally:
        made.unlink(missing_ok=True)


def _holds(path: Path, blob: Blob) -> bool:
    """Tells whether a file is a binary, and not only called as one."""
    if not path.is_file() or path.stat().st_size != blob.size:
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == blob.sha256
