"""Lines that a server's process writes down for the process that measures it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class Notes:
    """A file of lines of JSON about something, one for each process."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._pid = 0
        self._file = -1

    def add(self, line: object) -> None:
        """Add a line, whole, whichever thread asks."""
        if self._pid != os.getpid():
            path = Path(os.environ["LOAD_DIRECTORY"]) / f"{self._name}-{os.getpid()}.jsonl"
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            self._pid = os.getpid()
        os.write(self._file, f"{json.dumps(line)}\n".encode())


def read(directory: Path, name: str) -> Iterator[Any]:
    """Read what all processes wrote down."""
    for path in directory.glob(f"{name}-*.jsonl"):
        yield from map(json.loads, path.read_text().splitlines())
