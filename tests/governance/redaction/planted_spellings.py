"""A secret in many spellings, encodings and files: what one redaction of a text must reach."""

from __future__ import annotations

import base64
import bz2
import gzip
import html
import io
import json
import lzma
import quopri
import zipfile
import zlib
from collections.abc import Callable
from urllib.parse import quote

SECRET = "Zoë's planted-secret"


def _base64(text: str, encoding: str = "utf-8", before: str = "") -> str:
    return before + base64.b64encode(text.encode(encoding)).decode()


def _lines(text: str) -> str:
    return base64.encodebytes(("x" * 70 + text + "y" * 70).encode()).decode()


def _each(form: str) -> Callable[[str], str]:
    return lambda text: "".join(form.format(ord(character)) for character in text)


def _tags(text: str) -> str:
    return "".join(chr(0xE0000 + ord(c)) if c.isascii() else c for c in text)


def _bytes(form: str) -> Callable[[str], str]:
    return lambda text: "".join(form.format(byte) for byte in text.encode())


TEXTS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "upper case": str.upper,
    "wrapped": lambda text: text.replace(" ", "\n  "),
    "decomposed": lambda text: text.replace("ë", "e\u0308"),
    "curly": lambda text: text.replace("'", "’").replace("-", "\u2011"),
    "soft hyphens": lambda text: "\u00ad".join(text),
    "joiners": lambda text: "\u200b".join(text),
    "full width": lambda text: "".join(
        chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text
    ),
    "tag characters": _tags,
    "JSON": lambda text: json.dumps(text),
    "JSON in JSON": lambda text: json.dumps({"a": json.dumps({"b": text})}),
    "\\u0041": _each("\\u{:04x}"),
    "\\u{41}": _each("\\u{{{:x}}}"),
    "\\x41": _bytes("\\x{:02x}"),
    "\\101": _bytes("\\{:03o}"),
    "%41": _bytes("%{:02x}"),
    "URL": quote,
    "URL in URL": lambda text: quote(quote(text)),
    "form": lambda text: quote(text).replace("%20", "+"),
    "entities": _each("&#{:d};"),
    "hexadecimal entities": _each("&#x{:x};"),
    "HTML": lambda text: html.escape(text).replace("ë", "&euml;"),
    "HTML in HTML": lambda text: html.escape(html.escape(text)),
    "Markdown": lambda text: text.replace("-", "\\-"),
    "quoted-printable": lambda text: quopri.encodestring(text.encode()).decode(),
    "quoted-printable, all": _bytes("={:02X}"),
    "base64": _base64,
    "base64 in the middle": lambda text: _base64(f"so {text} is it"),
    "URL-safe base64": lambda text: base64.urlsafe_b64encode(text.encode()).decode().rstrip("="),
    "base64 after _": lambda text: _base64(text, before="token_"),
    "base64 after /": lambda text: _base64(text, before="a/"),
    "base64 after letters": lambda text: _base64(text, before="abc"),
    "base64 in lines": _lines,
    "base64 of UTF-16": lambda text: _base64(text, "utf-16-le"),
    "base64 of UTF-16, big": lambda text: _base64(text, "utf-16-be", "k="),
    "base64 of base64": lambda text: _base64(_base64(text, before="ab")),
    "base64 of JSON": lambda text: _base64(json.dumps({"name": text})),
    "a data URL": lambda text: "data:text/plain;base64," + _base64(text),
}
"""Texts that contain the secret."""


def _zip(text: str) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", f"<w:p><w:t>{text}</w:t></w:p>" * 3)
    return made.getvalue()


def _pdf(text: str) -> bytes:
    stream = zlib.compress(b"BT (" + text.encode() + b") Tj ET")
    return b"%PDF-1.7\n<< /Filter /FlateDecode >>\nstream\n" + stream + b"\nendstream\n%%EOF"


FILES: dict[str, Callable[[str], bytes]] = {
    "UTF-8": lambda text: b"\xff\x00" + text.encode(),
    "UTF-16": lambda text: b"\xff" + text.encode("utf-16-le"),
    "docx": _zip,
    "pdf": _pdf,
    "gzip": lambda text: gzip.compress(text.encode(), mtime=0),
    "bzip2": lambda text: bz2.compress(text.encode()),
    "xz": lambda text: lzma.compress(text.encode()),
}
"""Files that contain the secret."""

UNREAD: dict[str, bytes] = {
    "7-Zip": b"7z\xbc\xaf\x27\x1c" + bytes(range(64)),
    "cut": gzip.compress(b"another text" * 50, mtime=0)[:-9],
}
"""Files that a redaction cannot search, and must name."""
