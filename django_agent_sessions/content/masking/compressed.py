"""Compressed files: office documents, PDF, ZIP, gzip, bzip2 and xz are inflated to be searched.

What they contain is untrusted: depth, size, ratio and the number of members are limited, and the
budget of a request is checked while they are inflated. A file that is not searched completely is
reported as unread.
"""

from __future__ import annotations

import bz2
import io
import lzma
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from django_agent_sessions.content.work_budget import check_work

from .finders import Finders
from .text_finder import Match

_DEPTH = 3
_MOST_BYTES = 64 * 1024 * 1024
_MOST_RATIO = 200
_FREE_BYTES = 4 * 1024 * 1024
"""Inflated whatever the ratio is."""
_MOST_MEMBERS = 2000
_CHUNK = 256 * 1024

_ZIP = b"PK\x03\x04"
_ZIP_ENTRY = b"PK\x01\x02"
_PDF = b"%PDF-"
_STREAMS: tuple[tuple[bytes, Callable[[], Any]], ...] = (
    (b"\x1f\x8b", lambda: zlib.decompressobj(31)),
    (b"BZh", bz2.BZ2Decompressor),
    (b"\xfd7zXZ\x00", lzma.LZMADecompressor),
    *((bytes((0x78, flags)), zlib.decompressobj) for flags in (0x01, 0x5E, 0x9C, 0xDA)),
)
# 7-Zip, RAR, Zstandard, LZ4, Cabinet.
_UNSUPPORTED = (b"7z\xbc\xaf\x27\x1c", b"Rar!", b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18", b"MSCF")
_OLE = b"\xd0\xcf\x11\xe0"
_ENCRYPTED_OFFICE = "EncryptedPackage".encode("utf-16-le")
_KNOWN = (_ZIP, _PDF, _OLE, *_UNSUPPORTED, *(start for start, _ in _STREAMS))

_PDF_STREAM = re.compile(rb"(?<!end)stream\r?\n")
_PDF_TEXT = re.compile(rb"\(((?:[^()\\]|\\.){0,4096})\)|<([0-9A-Fa-f\s]{2,8192})>", re.DOTALL)
_PDF_ESCAPE = re.compile(rb"\\([()\\])")
# Encrypted, in a filter that is not inflated, or in glyphs of a font instead of characters.
_PDF_UNREAD = re.compile(
    rb"/Encrypt\b|/LZWDecode|/ASCII85Decode|/ASCIIHexDecode|/RunLengthDecode|/Crypt\b|/Identity-H"
)
_PARAGRAPH = re.compile(r"</(?:w:p|a:p|text:p|text:h|si|row|tr|p|div)>|<(?:w:br|w:tab|br)\b[^<>]*>")
_TAG = re.compile(r"<[^<>]*>")


class _TooMuchError(Exception):
    """A file is larger, deeper or more compressed than the limits, or is damaged."""


_ERRORS = (
    _TooMuchError,
    EOFError,
    NotImplementedError,
    OSError,
    RuntimeError,
    ValueError,
    lzma.LZMAError,
    zipfile.BadZipFile,
    zlib.error,
)


def is_compressed(data: bytes) -> bool:
    """Return whether data is a file that a search has to inflate, or cannot."""
    return data.startswith(_KNOWN)


class CompressedFile:
    """A compressed file; ``unread`` is whether a part of it was not searched."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._left = min(_MOST_BYTES, max(_FREE_BYTES, len(data) * _MOST_RATIO))
        self._members = _MOST_MEMBERS
        self.unread = False

    def find(self, finders: Finders) -> Match | None:
        """Return the first match in the file."""
        for content in self._contents(self._data, _DEPTH):
            for text, is_bytes in _texts(content):
                wanted = finders.exact if is_bytes else finders
                match = next(wanted.search(text, is_bytes=is_bytes), None)
                if match is not None:
                    return match
        return None

    def _contents(self, data: bytes, depth: int) -> Iterator[bytes]:
        """Yield the contents of a file, and of the compressed files in it."""
        if not is_compressed(data):
            return
        try:
            if depth == 0:
                raise _TooMuchError
            for content in self._inflate(data):
                yield content
                yield from self._contents(content, depth - 1)
        except _ERRORS:
            self.unread = True

    def _inflate(self, data: bytes) -> Iterator[bytes]:
        if data.startswith(_ZIP):
            yield from self._inflate_zip(data)
        elif data.startswith(_PDF):
            yield from self._inflate_pdf(data)
        elif data.startswith((*_UNSUPPORTED, _OLE)):
            self.unread |= not data.startswith(_OLE) or _ENCRYPTED_OFFICE in data
        else:
            new = next(new for start, new in _STREAMS if data.startswith(start))
            yield from self._inflate_streams(data, new)

    def _inflate_streams(self, data: bytes, new: Callable[[], Any]) -> Iterator[bytes]:
        # A file may have several streams one after the other.
        while data and self._members:
            self._members -= 1
            source = _Source(data, new())
            yield self._read(source.read)
            data = source.rest.lstrip(b"\0")
            if not data.startswith(_KNOWN):
                return

    def _inflate_zip(self, data: bytes) -> Iterator[bytes]:
        # The list of members takes memory, too.
        if data.count(_ZIP_ENTRY) > self._members:
            raise _TooMuchError
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for info in archive.infolist():
                self._members -= 1
                try:
                    with archive.open(info) as member:
                        content = self._read(member.read)
                except (NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error):
                    # Encrypted, damaged, or in another method of compression.
                    self.unread = True
                    continue
                yield content

    def _inflate_pdf(self, data: bytes) -> Iterator[bytes]:
        self.unread |= _PDF_UNREAD.search(data) is not None
        end = 0
        for begin in _PDF_STREAM.finditer(data):
            if begin.start() < end:
                continue
            end = data.find(b"endstream", begin.end())
            if end < 0:
                raise _TooMuchError
            self._members -= 1
            if self._members < 0:
                raise _TooMuchError
            rest = data[begin.end() : end]
            if not rest.startswith(b"\x78"):
                continue
            try:
                content = self._read(_Source(rest, zlib.decompressobj()).read)
            except zlib.error:
                self.unread = True
                continue
            self.unread |= _PDF_UNREAD.search(content) is not None
            yield content
            yield b"".join(map(_pdf_text, _PDF_TEXT.finditer(content)))

    def _read(self, read: Callable[[int], bytes]) -> bytes:
        """Read everything, within the limits."""
        content = bytearray()
        while chunk := read(_CHUNK):
            self._left -= len(chunk)
            if self._left < 0:
                raise _TooMuchError
            content += chunk
            check_work(2 * len(content))
        return bytes(content)


class _Source:
    """Reads a compressed stream; ``rest`` is what follows it."""

    def __init__(self, data: bytes, decompressor: Any) -> None:
        self._next = data
        self._decompressor = decompressor

    def read(self, size: int) -> bytes:
        decompressor = self._decompressor
        if decompressor.eof:
            return b""
        content: bytes = decompressor.decompress(self._next, size)
        # bz2 and lzma keep themselves what they have not read.
        self._next = getattr(decompressor, "unconsumed_tail", b"")
        return content

    @property
    def rest(self) -> bytes:
        if not self._decompressor.eof:
            raise EOFError
        rest: bytes = self._decompressor.unused_data
        return rest


def _pdf_text(match: re.Match[bytes]) -> bytes:
    if match[1] is not None:
        return _PDF_ESCAPE.sub(rb"\1", match[1])
    digits = b"".join(match[2].split())
    return bytes.fromhex((digits + b"0" * (len(digits) % 2)).decode())


def _texts(content: bytes) -> Iterator[tuple[str, bool]]:
    """Yield a content as a text, or as bytes; XML also without its tags."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        yield content.decode("latin-1"), True
        return
    if "\0" in text:
        yield content.decode("latin-1"), True
    yield text, False
    if "<" in text:
        # A word processor splits a word into several elements.
        yield _TAG.sub("", _PARAGRAPH.sub("\n", text)), False
