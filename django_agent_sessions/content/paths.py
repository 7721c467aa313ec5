"""Paths of values in a payload: keys of dicts and indexes of lists."""

from __future__ import annotations

import json
from typing import Any

Path = tuple[str | int, ...]
"""The path to a value in a payload: ``("content", 3)`` is the fourth block of a message."""


def value_at(payload: Any, path: Path) -> Any:
    """Return the value at a path; raise ``LookupError`` if there is none."""
    for key in path:
        if isinstance(payload, dict):
            is_valid = isinstance(key, str)
        elif isinstance(payload, list | tuple):
            is_valid = type(key) is int and 0 <= key < len(payload)
        else:
            is_valid = False
        if not is_valid:
            raise LookupError("the path does not exist")
        payload = payload[key]
    return payload


def has_path(payload: Any, path: Path) -> bool:
    """Return whether a payload has a value at a path."""
    try:
        value_at(payload, path)
    except LookupError:
        return False
    return True


def path_to_json(path: Path) -> str:
    """Return a path as JSON, for a link or an attribute."""
    return json.dumps(list(path), separators=(",", ":"))


def path_from_json(address: str) -> Path:
    """Parse a path from JSON; raise :exc:`ValueError` if it is invalid."""
    try:
        found = json.loads(address)
    except RecursionError:
        raise ValueError("The path is nested too deeply.") from None
    if not isinstance(found, list) or not all(type(step) in (str, int) for step in found):
        raise ValueError("The path is not a list of keys and positions.")
    return tuple(found)
