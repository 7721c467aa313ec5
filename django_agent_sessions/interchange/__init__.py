"""Sessions as files, out and in: Markdown for people, JSON Lines and SDKs' layouts for programs.

What leaves is read from the rows as they are, not from what a page shows, and holds only the
redacted version of what was redacted. What comes in is written by the store, like all else.
"""

from __future__ import annotations

from .importing import import_sessions
from .jsonl import FORMAT, VERSION, export_sessions
from .jsonl_reading import JsonLines
from .markdown import export_markdown
from .owners import owners_from_csv, owners_from_function
from .reports import ImportReport

__all__ = [
    "FORMAT",
    "VERSION",
    "ImportReport",
    "JsonLines",
    "export_markdown",
    "export_sessions",
    "import_sessions",
    "owners_from_csv",
    "owners_from_function",
]
