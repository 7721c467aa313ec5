"""Files that are created atomically."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast


@contextmanager
def new_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a new file, compressed if it ends with ``.gz``; it gets its name when it is complete.

    The data is written to a file with the suffix ``.part``, which is deleted after an error. A
    ``.part`` file of a killed process is overwritten. Raise FileExistsError or
    FileNotFoundError if the path or its directory is wrong.
    """
    part = path.with_name(f"{path.name}.part")
    _require_new(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"directory {path.parent} does not exist: create it first")
    try:
        with part.open("wb") as file:
            if path.suffix == ".gz":
                with gzip.GzipFile(path.name, "wb", fileobj=file) as compressed:
                    yield cast("IO[bytes]", compressed)
            else:
                yield file
        _require_new(path)
        part.rename(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _require_new(path: Path) -> None:
    if path.exists():
        raise FileExistsError(f"{path} already exists: choose another name")
