"""Registry of import sources by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path, PurePosixPath

from django.db import DEFAULT_DB_ALIAS

from .agentic_django import AgenticDjangoSource
from .jsonl_import import MAX_LINE_BYTES, STDIN, JsonLines
from .locations import open_location
from .openai_advanced import OpenAIAdvancedSQLiteSource
from .openai_sources import (
    OpenAIDjangoSessionsSource,
    OpenAISQLAlchemySource,
    OpenAISQLiteSource,
)
from .sources import Source
from .strands_files import StrandsFiles
from .strands_snapshots import StrandsSnapshots

SOURCES: dict[str, tuple[str, Callable[[str], Source]]] = {
    StrandsFiles.kind: (
        "PATH or STORAGE:FOLDER, as FileSessionManager and S3SessionManager write it",
        lambda place: StrandsFiles(*open_location(place)),
    ),
    StrandsSnapshots.kind: (
        "PATH or STORAGE:FOLDER, as the storage of SnapshotSessionManager",
        lambda place: StrandsSnapshots(*open_location(place)),
    ),
    "openai-sqlite": ("FILE of SQLiteSession", OpenAISQLiteSource),
    "openai-advanced-sqlite": ("FILE of AdvancedSQLiteSession", OpenAIAdvancedSQLiteSource),
    "openai-sqlalchemy": ("database URL of SQLAlchemySession", OpenAISQLAlchemySource),
    "openai-django-sessions": (
        "ALIAS in DATABASES of the package openai-django-sessions (default if omitted)",
        lambda alias: OpenAIDjangoSessionsSource(alias or DEFAULT_DB_ALIAS),
    ),
    AgenticDjangoSource.kind: (
        "ALIAS in DATABASES of the package agentic-django (default if omitted)",
        lambda alias: AgenticDjangoSource(alias or DEFAULT_DB_ALIAS),
    ),
    JsonLines.kind: (
        "FILE of an export, .gz if compressed, or - for the standard input",
        JsonLines,
    ),
}
"""The description of the location and the factory of each kind."""

OPTIONAL_LOCATIONS = frozenset({"openai-django-sessions", AgenticDjangoSource.kind})
"""The kinds that have a default location."""

KINDS_WITH_OWNERS = frozenset({AgenticDjangoSource.kind, JsonLines.kind})
"""The kinds that name the owners of their sessions."""

_LOOKED_FOR = {
    StrandsFiles.kind: "folders called session_<id>",
    StrandsSnapshots.kind: "folders called session/<id>",
    JsonLines.kind: "lines, each with a session",
}


def open_source(kind: str, place: str, *, max_line_bytes: int = MAX_LINE_BYTES) -> Source:
    if kind == JsonLines.kind:
        return JsonLines(place, max_line_bytes=max_line_bytes)
    return SOURCES[kind][1](place)


def may_be_empty(kind: str) -> bool:
    """Return whether a source without sessions is as expected: its tables were found."""
    return kind not in _LOOKED_FOR


def no_sessions_text(kind: str, place: str) -> str:
    """Return the text for a source without sessions."""
    if may_be_empty(kind):
        # Without the location, because a URL may contain a password.
        return f"no session was found in these tables of {kind}"
    where = "the standard input" if place == STDIN else place
    hint = "; pass the parent directory" if _is_too_deep(kind, place) else ""
    return f"no session was found in {where}: looked for {_LOOKED_FOR[kind]}{hint}"


def _is_too_deep(kind: str, place: str) -> bool:
    # "." has no name; resolve it.
    name = PurePosixPath(place.rpartition(":")[2]).name or Path(place).resolve().name
    if kind == StrandsFiles.kind:
        return name.startswith("session_")
    return kind == StrandsSnapshots.kind and name == "session"
