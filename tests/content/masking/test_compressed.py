"""A string in a compressed file is found, within bounds, and what was not searched is reported."""

from __future__ import annotations

import base64
import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
import zlib
from typing import Any

import pytest

from django_agent_sessions.content import detectors
from django_agent_sessions.content.masking import DetectorFinder, TextFinder, mask_tree

SECRET = "hunter2"


def zipped(*members: tuple[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return made.getvalue()


def document(xml: str, name: str = "word/document.xml") -> bytes:
    return zipped(("[Content_Types].xml", b"<Types/>" * 30), (name, xml.encode()))


def pdf(content: bytes, head: bytes = b"/Filter /FlateDecode") -> bytes:
    stream = zlib.compress(content)
    return (
        b"%PDF-1.7\n1 0 obj\n<< " + head + b" /Length %d >>\nstream\n" % len(stream) + stream
    ) + b"\nendstream\nendobj\n%%EOF"


def tarred(content: bytes) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        info = tarfile.TarInfo("a.txt")
        info.size = len(content)
        archive.addfile(info, io.BytesIO(content))
    return made.getvalue()


FILES = {
    "docx": document("<w:p><w:t>it is hunter2</w:t></w:p>"),
    "docx in runs": document("<w:p><w:r><w:t>hun</w:t></w:r><w:r><w:t>ter2</w:t></w:r></w:p>"),
    "xlsx": document("<sst><si><t>hunter2</t></si></sst>", "xl/sharedStrings.xml"),
    "pptx": document("<a:p><a:t>hunter2</a:t></a:p>", "ppt/slides/slide1.xml"),
    "odt": document("<text:p>HUNTER2</text:p>", "content.xml"),
    "pdf": pdf(b"BT (it is hunter2) Tj ET"),
    "pdf in pieces": pdf(b"BT [(hun) -20 (ter2)] TJ ET"),
    "pdf in hexadecimal": pdf(b"BT <68756e746572 32> Tj ET"),
    "pdf in UTF-16": pdf(b"BT <" + "hunter2".encode("utf-16-be").hex().encode() + b"> Tj ET"),
    "gzip": gzip.compress(b"it is hunter2 " * 9),
    "two gzips": gzip.compress(b"it is") + gzip.compress(b"hunter2"),
    "tar.gz": tarred(b"it is hunter2"),
    "bzip2": bz2.compress(b"it is hunter2"),
    "xz": lzma.compress(b"hun1 unter ter2 hu nt er2 " * 9 + b"hunter2"),
    "zlib": zlib.compress(b"it is hunter2"),
    "zip in gzip in zip": zipped(("a", gzip.compress(zipped(("b", b"hunter2"))))),
    "UTF-16": gzip.compress("it is hunter2".encode("utf-16")),
    "base64": gzip.compress(base64.b64encode(b"it is hunter2")),
}


def masked(data: Any, *finders: Any) -> Any:
    return mask_tree({"bytes": data}, finders or [TextFinder(SECRET)])


@pytest.mark.parametrize("name", FILES)
def test_a_string_in_a_file_is_found_and_the_file_is_replaced(name):
    assert SECRET.encode() not in FILES[name]

    after, hits = masked(FILES[name])

    assert after == {"bytes": b"[REDACTED]"}
    assert (hits.replaced, len(hits)) == ([("bytes",)], 1)


@pytest.mark.parametrize("name", FILES)
def test_a_file_without_the_string_stays(name):
    after, hits = masked(FILES[name], TextFinder("hunter3"))

    assert after["bytes"] is FILES[name]
    assert (hits, hits.unread) == ([], [])


def test_a_file_in_base64_is_found():
    url = "data:application/gzip;base64," + base64.b64encode(FILES["gzip"]).decode()

    after, hits = mask_tree({"file_data": url}, [TextFinder(SECRET)])

    assert base64.b64decode(after["file_data"].partition(",")[2]) == b"[REDACTED]"
    assert len(hits) == 1


def test_detectors_search_files():
    data = document("<w:p><w:t>Write to ada@example.org</w:t></w:p>")

    after, hits = masked(data, DetectorFinder(detectors.load(["email"])))

    assert after == {"bytes": b"[REDACTED:EMAIL]"}
    assert hits.kinds == {"EMAIL": 1}


def nested(times: int) -> bytes:
    data = b"hunter2"
    for _ in range(times):
        data = gzip.compress(data)
    return data


def encrypted() -> bytes:
    data = bytearray(zipped(("a.txt", b"hunter2 " * 9)))
    for signature, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(signature) + at] |= 1
    return bytes(data)


NOT_SEARCHED = {
    "too deep": nested(5),
    "a bomb": gzip.compress(b"\0" * 100_000_000),
    "too many members": zipped(*((f"{n}", b"") for n in range(2100))),
    "encrypted": encrypted(),
    "cut": gzip.compress(b"another text " * 99)[:-12],
    "streams without an end": b"%PDF-1.7 " + b"stream\n" * 100_000,
    "a damaged archive": FILES["docx"][:200],
    "an encrypted PDF": pdf(b"other", b"/Filter /FlateDecode /Encrypt 3 0 R"),
    "another filter of a PDF": pdf(b"other", b"/Filter [/LZWDecode]"),
    "glyphs in a PDF": pdf(b"BT <0012> Tj ET") + b"/Encoding /Identity-H",
    "7-Zip": b"7z\xbc\xaf\x27\x1c" + b"x" * 99,
    "RAR": b"Rar!\x1a\x07" + b"x" * 99,
    "Zstandard": b"\x28\xb5\x2f\xfd" + b"x" * 99,
    "an encrypted document": b"\xd0\xcf\x11\xe0" + "EncryptedPackage".encode("utf-16-le"),
}


# A bomb of 100 MB is inflated up to the limit.
@pytest.mark.timeout(30)
@pytest.mark.parametrize("name", NOT_SEARCHED)
def test_what_was_not_searched_is_reported(name):
    after, hits = masked(NOT_SEARCHED[name])

    assert after["bytes"] is NOT_SEARCHED[name]
    assert hits.unread == [("bytes",)]


@pytest.mark.parametrize("data", [b"x\x9cplain text", b"PK\x03\x04", b"%PDF-", b"BZh", b"\x1f\x8b"])
def test_what_only_begins_like_a_file_is_searched_as_bytes(data):
    after, hits = masked(data + b" hunter2")

    assert SECRET.encode() not in after["bytes"]
    assert len(hits) == 1
