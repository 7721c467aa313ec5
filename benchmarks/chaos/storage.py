"""A storage of files that is slow and fails when it is told to."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

from django.core.files.base import File
from django.core.files.storage import FileSystemStorage
from django.utils.deconstruct import deconstructible


@deconstructible(path="benchmarks.chaos.storage.MoodyStorage")
class MoodyStorage(FileSystemStorage):
    """Files in a folder; each access may take long or fail, before or after it is done."""

    def __init__(self, mood_file: str = "", **options: Any) -> None:
        super().__init__(**options)
        self._mood_file = Path(mood_file)

    def open(self, name: str, mode: str = "rb") -> File[Any]:
        """Opens a file."""
        self._wait("open")
        return super().open(name, mode)

    def save(self, name: str | None, content: Any, max_length: int | None = None) -> str:
        """Stores a file; it may be there although this raises."""
        self._wait("save")
        saved = super().save(name, content, max_length)
        self._wait("save")
        return saved

    def delete(self, name: str) -> None:
        """Deletes a file."""
        self._wait("delete")
        super().delete(name)

    def exists(self, name: str) -> bool:
        """Tells whether there is a file."""
        self._wait("exists")
        return super().exists(name)

    def _wait(self, what: str) -> None:
        try:
            mood = json.loads(self._mood_file.read_text())
        except (OSError, ValueError):
            return
        time.sleep(random.uniform(0, mood["seconds"]))
        if random.random() < mood["failing"]:
            raise OSError(f"the storage of binaries is in a bad mood: {what}")
