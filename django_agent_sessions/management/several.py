"""Repeatable options, also for callers of ``call_command``."""

from __future__ import annotations

from typing import Any
from uuid import UUID


def list_option(options: dict[str, Any], name: str) -> list[Any]:
    """Return the values of a repeatable option as a list.

    ``call_command`` passes a single text unchanged, which would be read character by character.
    """
    value = options[name]
    return [value] if isinstance(value, str | UUID) else list(value)
