"""Answers with what users or models made, which no browser runs or takes for another thing.

Nothing but pixels is shown as it is; text is plain text, and all else is a download. Whether
somebody may have it is asked by who calls this.
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
