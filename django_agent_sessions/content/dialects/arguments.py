"""JSON inside of strings, such as the arguments of tools in the OpenAI formats."""

from __future__ import annotations

import json
import re
from typing import Any

_DEPTH_CAP = 100
_CONTAINERS = ("{", "[")
_BRACKET = re.compile(r"[\[\]{}]")


def parse_json(value: object) -> Any:
    """Parse a string of JSON.

    Models write these strings. An invalid string, one with values that JSON cannot express again,
    and one nested too deeply for a page are returned unchanged.
    """
    if not isinstance(value, str):
        return value
    try:
        decoded = _decode(value)
    except (ValueError, RecursionError):
        return value
    return value if _too_deep(value) else decoded


def parse_json_container(value: object) -> Any:
    """Parse a tool's output if it is a JSON object or array, else return None."""
    if not isinstance(value, str) or not value.lstrip().startswith(_CONTAINERS):
        return None
    decoded = parse_json(value)
    return None if decoded is value else decoded


def _reject_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is not valid JSON")


def _parse_finite_float(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise ValueError("The number exceeds the range of a float.")
    return number


# Created once: json.loads with options creates a decoder per call.
_decode = json.JSONDecoder(parse_constant=_reject_constant, parse_float=_parse_finite_float).decode


def _too_deep(text: str) -> bool:
    """Return whether brackets, including those in strings, nest deeper than the cap."""
    if text.count("[") + text.count("{") <= _DEPTH_CAP:
        return False
    depth = deepest = 0
    for bracket in _BRACKET.findall(text):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    return deepest > _DEPTH_CAP
