"""A storage that fails at a chosen call, in a chosen way."""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.core.files.base import ContentFile
from django.core.files.storage import FileSystemStorage

from .messages import storages as to_storage

KINDS = ("error", "timeout", "partial", "silent", "late")
"""``error`` and ``timeout``: the call raises and has done nothing. ``late``: it has done everything
and raises. ``partial``: it has done a half and raises. ``silent``: it has done a half, or nothing
where there are no halves, and says nothing of that."""

CRASHES = ("kill before", "kill half-way")


class StorageError(Exception):
    """What some backend raises; no ``OSError``, as those of cloud storages are not."""


def storages(folder: Path) -> dict[str, dict[str, Any]]:
    """Settings that send large binaries to such a storage."""
    backend = {"BACKEND": f"{__name__}.FaultyStorage", "OPTIONS": {"location": str(folder)}}
    return to_storage(backend)


@dataclass
class Plan:
    """Which call goes wrong, and how.

    Attributes:
        at: The number of the call, from 0; None lets all go well.
        kind: One of :data:`KINDS` or :data:`CRASHES`.
        calls: The methods that were called.
    """

    at: int | None = None
    kind: str = "error"
    calls: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def next(self, method: str) -> str:
        """Notes a call; tells in which way it is to go wrong, empty for not."""
        with self._lock:
            self.calls.append(method)
            return self.kind if len(self.calls) - 1 == self.at else ""


plan = Plan()
"""Replace it by :func:`begin`."""


def begin(at: int | None = None, kind: str = "error") -> Plan:
    """Starts to count anew."""
    global plan
    plan = Plan(at, kind)
    return plan


class FaultyStorage(FileSystemStorage):
    """Files in a folder, by Django's own methods, each of which may fail."""

    def _save(self, name: Any, content: Any) -> str:
        kind = _before("save")
        if kind in {"partial", "silent", "kill half-way"}:
            data = content.read()
            content = ContentFile(data[: len(data) // 2])
        saved: str = super()._save(name, content)  # type: ignore[misc] # its types leave it out
        _after(kind)
        return saved

    def _open(self, name: Any, mode: str = "rb") -> Any:
        kind = _before("open")
        file = super()._open(name, mode)  # type: ignore[misc] # its types leave it out
        if kind in {"partial", "silent", "late"}:
            half = file.read(Path(self.path(name)).stat().st_size // 2)
            file.close()
            return ContentFile(half) if kind == "silent" else _Breaking(half)
        _after(kind)
        return file

    def delete(self, name: Any) -> None:
        kind = _before("delete")
        if kind not in {"silent", "partial"}:
            super().delete(name)
        _after(kind)

    def exists(self, name: Any) -> bool:
        kind = _before("exists")
        found = super().exists(name)
        _after(kind)
        return found

    def listdir(self, path: Any) -> Any:
        kind = _before("listdir")
        found = super().listdir(path)
        _after(kind)
        return found

    def size(self, name: Any) -> int:
        kind = _before("size")
        found = super().size(name)
        _after(kind)
        return found

    def get_modified_time(self, name: Any) -> Any:
        kind = _before("modified")
        found = super().get_modified_time(name)
        _after(kind)
        return found


class _Breaking(ContentFile):
    """Half of a file; then the connection breaks."""

    def read(self, *args: Any) -> Any:
        raise StorageError("the connection broke")


def _before(method: str) -> str:
    kind = plan.next(method)
    if kind == "error":
        raise StorageError("refused")
    if kind == "timeout":
        raise TimeoutError("too slow")
    if kind == "kill before":
        _die()
    return kind


def _after(kind: str) -> None:
    if kind in {"partial", "late"}:
        raise StorageError("the answer was lost")
    if kind.startswith("kill"):
        _die()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    # Nothing runs on in another thread meanwhile.
    signal.pause()
