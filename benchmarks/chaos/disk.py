"""A small file system of a run's own, which can be filled to the last byte."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Disk:
    """A folder, which has a file system of its own where one could be mounted."""

    def __init__(self, path: Path, *, small: bool) -> None:
        self.path = path
        self.small = small

    @contextmanager
    def full(self) -> Iterator[None]:
        """Leaves no room for the time of a block."""
        if not self.small:
            raise RuntimeError("only a file system of the run's own is ever filled")
        filler = self.path / "filler"
        try:
            _fill(filler)
            yield
        finally:
            filler.unlink(missing_ok=True)


@contextmanager
def mounted(path: Path, megabytes: int) -> Iterator[Disk]:
    """Mounts a file system in memory, if the machine lets us; unmounts it at the end."""
    path.mkdir(mode=0o711)
    options = f"size={megabytes}m,mode=0711"
    command = ["mount", "-t", "tmpfs", "-o", options, "agent-sessions-chaos", str(path)]
    small = os.geteuid() == 0 and _succeeds(command)
    try:
        yield Disk(path, small=small)
    finally:
        if small:
            # Lazily: whoever is still there sees to it that the rest of us can end.
            subprocess.run(["umount", "-l", str(path)], check=False)


def _fill(file: Path) -> None:
    with file.open("wb", buffering=0) as target:
        room = os.statvfs(file.parent)
        # The most of it at once; others write meanwhile, so the rest is taken piece by piece.
        with contextlib.suppress(OSError):
            os.posix_fallocate(target.fileno(), 0, room.f_bavail * room.f_frsize * 9 // 10)
        target.seek(0, os.SEEK_END)
        for size in (1 << 20, 1 << 12):
            zeros = bytes(size)
            with contextlib.suppress(_FullError):
                while True:
                    _write(target.fileno(), zeros)


def _succeeds(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


class _FullError(Exception):
    pass


def _write(target: int, data: bytes) -> None:
    try:
        os.write(target, data)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise _FullError from None
        raise
