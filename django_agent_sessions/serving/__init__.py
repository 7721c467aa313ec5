"""Responses with content of users or models, which no browser executes or misinterprets.

Only images are displayed; text is sent as plain text, and all else as a download. The caller
checks the permissions.
"""

from __future__ import annotations

from .binaries import serve_media
from .responses import (
    UnsatisfiableRangeError,
    attachment,
    encode_in_chunks,
    file_name,
    set_content_security_headers,
    streamed_download,
)

__all__ = [
    "UnsatisfiableRangeError",
    "attachment",
    "encode_in_chunks",
    "file_name",
    "serve_media",
    "set_content_security_headers",
    "streamed_download",
]
