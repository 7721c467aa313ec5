"""Where files are: a directory, or an alias of a Django storage and a folder in it."""

from __future__ import annotations

from pathlib import Path

from django.core.files.storage import FileSystemStorage, Storage, storages

from django_agent_sessions.exceptions import ConfigurationError


def find_place(place: str, *, make: bool = False) -> tuple[Storage, str]:
    """Finds a place by its name."""
    alias, colon, folder = place.partition(":")
    if colon and alias in storages.backends:
        return storages[alias], folder.strip("/")
    path = Path(place)
    try:
        if make:
            path.mkdir(parents=True, exist_ok=True)
        there = path.is_dir()
    except OSError as error:
        raise ConfigurationError(f"{place} cannot be made: {error.strerror}") from error
    if not there:
        raise ConfigurationError(
            f"there is no directory {place}, and no alias in STORAGES before a colon in it"
        )
    return FileSystemStorage(location=path.resolve()), ""
