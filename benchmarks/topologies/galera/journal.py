"""What writers were told: a line for each message that was acknowledged, and for each error.

A message carries a label ``[[writer:number]]``, so that it is known again wherever it is found.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_LABEL = re.compile(r"\[\[([\w-]+:\d+\w?)\]\]")


def labelled(label: str) -> str:
    """Writes a label as a part of a text."""
    return f"[[{label}]]"


def labels_in(text: str) -> list[str]:
    """Finds the labels in a text."""
    return _LABEL.findall(text)


class Journal:
    """The file of one writer. A line is in the file before the writer goes on."""

    def __init__(self, file: Path | str) -> None:
        self._file = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def acknowledged(self, session: str, labels: Iterable[str], seconds: float) -> None:
        """Notes that the store said of messages that they are stored."""
        self._write({"session": session, "labels": list(labels), "seconds": round(seconds, 4)})

    def failed(self, session: str, labels: Iterable[str], error: BaseException) -> None:
        """Notes that messages were refused: they may be there or not."""
        cause = error.__cause__ or error
        number = cause.args[0] if cause.args and isinstance(cause.args[0], int) else None
        self._write(
            {
                "session": session,
                "labels": list(labels),
                "error": f"{type(error).__name__} {number or str(error)[:200]}",
            }
        )

    def _write(self, line: dict[str, Any]) -> None:
        os.write(self._file, json.dumps(line).encode() + b"\n")


@dataclass
class Told:
    """What all writers were told."""

    acknowledged: dict[str, str] = field(default_factory=dict)
    """The session of each label."""
    unknown_files: set[str] = field(default_factory=set)
    """Labels of messages that were refused."""
    errors: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often each writer had each error."""
    seconds: list[float] = field(default_factory=list)
    """How long each acknowledged call took."""


def read(files: Iterable[Path]) -> Told:
    """Reads the files of writers."""
    told = Told()
    for file in files:
        for line in file.read_bytes().split(b"\n")[:-1]:
            entry = json.loads(line)
            if "error" in entry:
                told.unknown_files.update(entry["labels"])
                told.errors[file.stem, entry["error"]] += 1
            else:
                told.acknowledged |= dict.fromkeys(entry["labels"], entry["session"])
                told.seconds.append(entry["seconds"])
    return told
