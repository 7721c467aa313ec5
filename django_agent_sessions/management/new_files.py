"""Files that are there as a whole or not at all."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast


@contextmanager
def new_file(path: Path) -> Iterator[IO[bytes]]:
    """Opens a file that is not there yet. It gets its name when all of it is written.

    Until then it is called as it will be, with the ending ``.part``. If anything goes wrong, that
    is deleted; what a process that was killed left there is written over.
    """
    part = path.with_name(f"{path.name}.part")
    _refuse(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no directory {path.parent}: make it first")
    try:
        with part.open("wb") as file:
            if path.suffix == ".gz":
                with gzip.GzipFile(path.name, "wb", fileobj=file) as packed:
                    yield cast("IO[bytes]", packed)
            else:
                yield file
        _refuse(path)
        part.rename(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _refuse(path: Path) -> None:
    if path.exists():
        raise FileExistsError(f"{path} exists already: choose another name")
