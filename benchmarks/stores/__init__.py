"""The stores that are measured, behind one interface.

A store is only measured where the packages it needs are installed.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from .interface import Conversation, Store, UnavailableError

__all__ = ["Conversation", "Store", "UnavailableError", "find", "stores_for"]

_CLASSES = {
    "postgresql": (
        "raw.RawPostgreSQL",
        "raw_in_thread.PostgreSQLInThread",
        "ours_store.Bare",
        "ours_strands.Strands",
        "strands_snapshots.OnDjango",
        "ours_openai.OpenAI",
        "ours_openai.Advanced",
        "openai_sqlalchemy.OnPostgreSQL",
        "openai_django_sessions.OpenAIDjangoSessions",
        "agentic_django.AgenticDjango",
        "google_adk.GoogleADK",
        "langgraph.LangGraph",
        "openai_redis.OpenAIRedis",
    ),
    "sqlite": (
        "raw.RawSQLite",
        "raw_in_thread.SQLiteInThread",
        "ours_store.Bare",
        "ours_strands.Strands",
        "strands_snapshots.OnDjango",
        "ours_openai.OpenAI",
        "ours_openai.Advanced",
        "openai_sqlalchemy.OnSQLite",
        "openai_sqlite.OpenAISQLite",
        "openai_sqlite.OpenAIAdvancedSQLite",
        "strands_files.StrandsFiles",
        "strands_snapshots.OnFiles",
        "strands_s3.StrandsS3",
    ),
}


def stores_for(alias: str, wanted: Sequence[str] = ("",)) -> tuple[list[Store], list[str]]:
    """Makes the stores that can be measured on a database."""
    stores: list[Store] = []
    missing: list[str] = []
    for path in _CLASSES[alias]:
        try:
            store = find(path)(alias)
        except ImportError as error:
            missing.append(f"{path.split('.')[1]} is left out: {_reason(error)}")
        else:
            if not stores or any(part.casefold() in store.name.casefold() for part in wanted):
                stores.append(store)
    return stores, missing


def find(path: str) -> type[Store]:
    """Imports one."""
    module, name = path.split(".")
    found: type[Store] = getattr(importlib.import_module(f".{module}", __name__), name)
    return found


def _reason(error: ImportError) -> str:
    return f"{error.name} is not installed" if error.name else str(error)
