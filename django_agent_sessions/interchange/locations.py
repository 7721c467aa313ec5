"""Locations of files: a directory, or a storage alias and a folder."""

from __future__ import annotations

from pathlib import Path

from django.core.files.storage import FileSystemStorage, Storage, storages

from django_agent_sessions.exceptions import ConfigurationError


def open_location(place: str, *, make: bool = False) -> tuple[Storage, str]:
    """Return the storage and the folder of a location such as ``path`` or ``alias:folder``."""
    alias, colon, folder = place.partition(":")
    if colon and alias in storages.backends:
        return storages[alias], folder.strip("/")
    path = Path(place)
    try:
        if make:
            path.mkdir(parents=True, exist_ok=True)
        exists = path.is_dir()
    except OSError as error:
        raise ConfigurationError(f"{place} cannot be created: {error.strerror}") from error
    if not exists:
        raise ConfigurationError(
            f"directory {place} does not exist: pass a directory, or an alias in STORAGES with a "
            "colon and a folder"
        )
    return FileSystemStorage(location=path.resolve()), ""
