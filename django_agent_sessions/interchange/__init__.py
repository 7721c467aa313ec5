"""Export and import of sessions: Markdown for reading, JSON Lines and the SDKs' file layouts.

Exports read the stored rows and contain only the redacted versions of redacted messages. Imports
write through the store.
"""

from __future__ import annotations

from .importing import import_sessions
from .jsonl_export import JSONL_FORMAT, VERSION, export_sessions
from .jsonl_import import JsonLines
from .markdown import export_markdown
from .owner_mapping import owners_from_csv, owners_from_function, owners_from_source
from .reports import ImportReport

__all__ = [
    "JSONL_FORMAT",
    "VERSION",
    "ImportReport",
    "JsonLines",
    "export_markdown",
    "export_sessions",
    "import_sessions",
    "owners_from_csv",
    "owners_from_function",
    "owners_from_source",
]
