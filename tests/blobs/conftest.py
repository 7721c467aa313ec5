"""A storage of large binaries of its own for each test."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def blob_folder(tmp_path, settings) -> Path:
    """Sends large binaries to a folder, and tells which."""
    folder: Path = tmp_path / "blobs"
    settings.STORAGES = {
        **settings.STORAGES,
        "blobs": {
            "BACKEND": "django.core.files.storage.FileSystemStorage",
            "OPTIONS": {"location": str(folder)},
        },
    }
    settings.AGENT_SESSIONS = {**getattr(settings, "AGENT_SESSIONS", {}), "BLOB_STORAGE": "blobs"}
    return folder


@pytest.fixture
def stored(blob_folder):
    """Lists the files in the folder."""

    def files() -> list[Path]:
        return sorted(path for path in blob_folder.rglob("*") if path.is_file())

    return files
