"""Opening of files in directories that another user may have filled.

A symbolic link there could lead to any file of the server or to a device without an end, and
reading a FIFO waits for a writer. Only regular files are opened, and no link is followed.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import PurePath
from typing import BinaryIO

from django.core.exceptions import SuspiciousFileOperation

_FILE = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    # Opening a FIFO returns at once.
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_BINARY", 0)
)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_CAN_WALK = os.open in os.supports_dir_fd


def open_regular_file(root: str | os.PathLike[str], name: str) -> BinaryIO:
    """Open a regular file below a directory; links below the directory are not followed.

    ``name`` is relative to ``root``. Raises ``OSError``, or ``SuspiciousFileOperation``
    if the file or one of its folders is a link, or the file is not a regular one.
    """
    parts = PurePath(name).parts
    if not parts or PurePath(name).is_absolute() or ".." in parts:
        raise SuspiciousFileOperation(f"{name!r} is not the name of a file")
    if has_link_below(root, name):
        raise _link(name)
    try:
        descriptor = _walk(root, parts) if _CAN_WALK else os.open(os.path.join(root, name), _FILE)
    except OSError as error:
        # A link that was created since; or a socket.
        if error.errno in (errno.ELOOP, errno.EMLINK):
            raise _link(name) from None
        if error.errno == errno.ENXIO:
            raise _not_regular(name) from None
        if error.errno == errno.ENOTDIR:
            raise FileNotFoundError(f"file {name!r} does not exist") from None
        raise
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    raise _not_regular(name)


def has_link_below(root: str | os.PathLike[str], name: str) -> bool:
    """Return whether a name below a directory, or one of its folders there, is a symbolic link."""
    path = os.fspath(root)
    for part in PurePath(name).parts:
        path = os.path.join(path, part)
        if os.path.islink(path):
            return True
    return False


def _walk(root: str | os.PathLike[str], parts: tuple[str, ...]) -> int:
    """Open a file folder by folder, so that none of them can be replaced by a link meanwhile."""
    folder = os.open(root, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    try:
        for part in parts[:-1]:
            deeper = os.open(part, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = deeper
        return os.open(parts[-1], _FILE, dir_fd=folder)
    finally:
        os.close(folder)


def _link(name: str) -> SuspiciousFileOperation:
    return SuspiciousFileOperation(f"{name!r} is a symbolic link, or is in a folder that is one")


def _not_regular(name: str) -> SuspiciousFileOperation:
    return SuspiciousFileOperation(f"{name!r} is not a regular file")
