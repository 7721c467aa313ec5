"""A zip archive that is written while it is sent, with the memory of one piece."""

from __future__ import annotations

import io
import time
from collections.abc import Iterable, Iterator
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

_CHUNK_SIZE = 64 * 1024

Entry = tuple[str, Iterable[bytes]]
"""The name of a file in the archive, and its pieces, which are read when its turn comes."""


class _Output(io.RawIOBase):
    """What the archive has written and nobody has taken; it cannot be sought in."""

    def __init__(self) -> None:
        self._data = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        written = bytes(memoryview(data))  # type: ignore[arg-type] # any buffer
        self._data += written
        return len(written)

    def take(self, least: int = 1) -> Iterator[bytes]:
        if len(self._data) >= least:
            data, self._data = bytes(self._data), bytearray()
            yield data


def stream_zip(entries: Iterable[Entry]) -> Iterator[bytes]:
    """Yield an archive. After an error it is incomplete, and no program opens it."""
    output = _Output()
    with ZipFile(output, "w") as archive:
        for name, pieces in entries:
            info = ZipInfo(name, time.gmtime()[:6])
            info.compress_type = ZIP_DEFLATED
            # The size is not known before: 4 GiB are allowed for.
            with archive.open(info, "w", force_zip64=True) as file:
                for piece in pieces:
                    file.write(piece)
                    yield from output.take(_CHUNK_SIZE)
            yield from output.take(_CHUNK_SIZE)
    yield from output.take()
