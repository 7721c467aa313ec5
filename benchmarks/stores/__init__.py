"""The stores that are measured, behind one interface.

A store is only measured where the packages it needs are installed.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from .interface import Conversation, Store

__all__ = ["Conversation", "Store", "stores_for"]

_CLASSES = {
    "postgresql": (
        "raw.RawPostgreSQL",
        "ours_store.Bare",
        "ours_strands.Strands",
        "ours_openai.OpenAI",
        "openai_sqlalchemy.OnPostgreSQL",
    ),
    "sqlite": (
        "raw.RawSQLite",
        "ours_store.Bare",
        "ours_strands.Strands",
        "ours_openai.OpenAI",
        "openai_sqlalchemy.OnSQLite",
        "openai_sqlite.OpenAISQLite",
        "strands_files.StrandsFiles",
    ),
}


def stores_for(alias: str, wanted: Sequence[str] = ("",)) -> tuple[list[Store], list[str]]:
    """Makes the stores that can be measured on a database.

    Args:
        alias: ``sqlite`` or ``postgresql``.
        wanted: Parts of the names of the stores to measure; the raw driver is always there.

    Returns:
        The stores, the raw driver first; and what is left out, with the reason.
    """
    stores: list[Store] = []
    missing: list[str] = []
    for path in _CLASSES[alias]:
        module, name = path.split(".")
        try:
            found = getattr(importlib.import_module(f".{module}", __name__), name)
        except ImportError as error:
            missing.append(f"{name} is left out: {error.name} is not installed")
        else:
            if not stores or any(part.casefold() in found.name.casefold() for part in wanted):
                stores.append(found(alias))
    return stores, missing
