"""What the texts of the writers carry, so that each message and each secret is known again."""

from __future__ import annotations

import hashlib
import re

_TOKEN = re.compile(r"#(w\d+\.\d+\.\d+[a-z]?)#")
_SECRET = re.compile(r"KEY-[0-9a-f]{20}")
_BINARY = re.compile(rb"#(w\d+\.\d+\.\d+[a-z]?)#(KEY-[0-9a-f]{20})?", re.DOTALL)
_BLOB_SIZE = 12_000


def marked(token: str, text: str = "", secret: str | None = None) -> str:
    """Writes a text that carries a token, and a secret if there is one."""
    return " ".join(part for part in (f"#{token}#", text, secret) if part)


def tokens_in(text: str) -> list[str]:
    """Finds the tokens in a text, in order, each once."""
    return list(dict.fromkeys(_TOKEN.findall(text)))


def secrets_in(text: str) -> set[str]:
    """Finds the secrets in a text."""
    return set(_SECRET.findall(text))


def secret_of(token: str, seed: int) -> str:
    """Makes the secret of a message: nobody else's, and the same for the same seed."""
    return f"KEY-{hashlib.sha256(f'{seed}/{token}'.encode()).hexdigest()[:20]}"


def binary_of(token: str) -> bytes:
    """Makes a binary that says whose it is, and can be told from any other."""
    head = f"#{token}#".encode()
    block = hashlib.sha256(head).digest()
    return head + block * (_BLOB_SIZE // len(block))


def is_sound(binary: bytes) -> bool:
    """Tells whether a binary is what :func:`binary_of` made of the token in it."""
    found = _BINARY.match(binary)
    return found is not None and binary == binary_of(found[1].decode())
