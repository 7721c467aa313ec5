"""JSON inside of strings, as the OpenAI formats carry the arguments of tools."""

from __future__ import annotations

import json
import re
from typing import Any

_DEPTH_CAP = 100
_CONTAINERS = ("{", "[")
_BRACKET = re.compile(r"[\[\]{}]")


def parsed(value: object) -> Any:
    """Parses a string of JSON.

    Models write these strings, so anything may be in them. What could not be written as JSON again,
    or nests so deep that a page could not show it, is left as it is.
    """
    if not isinstance(value, str):
        return value
    try:
        found = _decode(value)
    except (ValueError, RecursionError):
        return value
    return value if _too_deep(value) else found


def parsed_container(value: object) -> Any:
    """Parses a tool's output, which is JSON only by the tool's choice."""
    if not isinstance(value, str) or not value.lstrip().startswith(_CONTAINERS):
        return None
    found = parsed(value)
    return None if found is value else found


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise ValueError("a number beyond what a float holds")
    return number


# Made once: json.loads makes a new one at each call that has an option.
_decode = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite).decode


def _too_deep(text: str) -> bool:
    """Tells whether brackets nest deeper than the cap; those inside of strings may count too."""
    if text.count("[") + text.count("{") <= _DEPTH_CAP:
        return False
    depth = deepest = 0
    for bracket in _BRACKET.findall(text):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    return deepest > _DEPTH_CAP
