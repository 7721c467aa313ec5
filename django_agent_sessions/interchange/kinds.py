"""Where an import can come from, by name."""

from __future__ import annotations

from collections.abc import Callable

from django.db import DEFAULT_DB_ALIAS

from .jsonl_reading import MAX_LINE_BYTES, JsonLines
from .openai_django import OpenAIDjangoSessionsSource
from .openai_sqlalchemy import OpenAISQLAlchemySource
from .openai_sqlite import OpenAIAdvancedSQLiteSource, OpenAISQLiteSource
from .places import find_place
from .sources import Source
from .strands_files import StrandsFiles
from .strands_snapshots import StrandsSnapshots

KINDS: dict[str, tuple[str, Callable[[str], Source]]] = {
    StrandsFiles.kind: (
        "PATH or STORAGE:FOLDER, as FileSessionManager and S3SessionManager write it",
        lambda place: StrandsFiles(*find_place(place)),
    ),
    StrandsSnapshots.kind: (
        "PATH or STORAGE:FOLDER, as the storage of SnapshotSessionManager",
        lambda place: StrandsSnapshots(*find_place(place)),
    ),
    "openai-sqlite": ("FILE of SQLiteSession", OpenAISQLiteSource),
    "openai-advanced-sqlite": ("FILE of AdvancedSQLiteSession", OpenAIAdvancedSQLiteSource),
    "openai-sqlalchemy": ("URL that SQLAlchemySession was given", OpenAISQLAlchemySource),
    "openai-django-sessions": (
        "ALIAS in DATABASES of the package openai-django-sessions; default, if not given",
        lambda alias: OpenAIDjangoSessionsSource(alias or DEFAULT_DB_ALIAS),
    ),
    JsonLines.kind: (
        "FILE of an export, .gz if compressed, or - for the standard input",
        JsonLines,
    ),
}
"""What stands for the place of each kind, and what opens it."""


def open_source(kind: str, place: str, *, max_line_bytes: int = MAX_LINE_BYTES) -> Source:
    """Opens a source.

    Args:
        kind: One of :data:`KINDS`.
        place: Where it is.
        max_line_bytes: How long a line of JSON Lines may be.

    Returns:
        The source.

    Raises:
        ConfigurationError: There is nothing of this kind.
    """
    if kind == JsonLines.kind:
        return JsonLines(place, max_line_bytes=max_line_bytes)
    return KINDS[kind][1](place)
