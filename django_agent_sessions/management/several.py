"""Options that may be given several times, also by callers from Python."""

from __future__ import annotations

from typing import Any
from uuid import UUID


def several(options: dict[str, Any], name: str) -> list[Any]:
    """Tells what was given for an option that may be given several times.

    ``call_command`` hands on what its caller wrote, and each letter of a single text would be
    taken for one of several.
    """
    given = options[name]
    return [given] if isinstance(given, str | UUID) else list(given)
