"""Responses with content of users or models, which no browser executes or misinterprets.

Only images are displayed; text is sent as plain text, and all else as a download. The caller
checks the permissions.
"""

from __future__ import annotations

from .binaries import media
from .files import attachment, download, encoded, file_name, sealed
from .ranges import UnsatisfiableRangeError

__all__ = [
    "UnsatisfiableRangeError",
    "attachment",
    "download",
    "encoded",
    "file_name",
    "media",
    "sealed",
]
