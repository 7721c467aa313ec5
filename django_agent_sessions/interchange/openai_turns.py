"""Turn usage and branch names of ``AdvancedSQLiteSession``."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django_agent_sessions.content.exact_json import reject_constant
from django_agent_sessions.store.snapshots import BRANCH_NAMES
from django_agent_sessions.values.records import TurnCost

from .untrusted import MAX_INTEGER

_NAMES = ("requests", "input_tokens", "output_tokens", "total_tokens")
_DETAILS = ("input_tokens_details", "output_tokens_details")


def deleted_branches_state(names: Sequence[str]) -> dict[str, Any]:
    """Return the internal state of an agent whose branches with these names were deleted."""
    return {BRANCH_NAMES: {"deleted": list(names), "cleared": []}} if names else {}


def turn_costs(
    connection: sqlite3.Connection, name: bytes, branches: Mapping[bytes, int]
) -> Iterator[TurnCost]:
    """Yield the usage of the turns of a session."""
    found = connection.execute(
        f"SELECT branch_id, user_turn_number, {', '.join(_NAMES + _DETAILS)} "
        "FROM turn_usage WHERE session_id = CAST(? AS TEXT) ORDER BY id",
        (name,),
    )
    for branch, turn, *columns in found.fetchall():
        numbers = [0 if value is None else value for value in columns[: len(_NAMES)]]
        details = map(_json, columns[len(_NAMES) :])
        valid = all(
            isinstance(value, int) and 0 <= value <= MAX_INTEGER for value in (turn, *numbers)
        )
        if valid and branch in branches:
            yield TurnCost(
                turn=turn,
                branch=branches[branch],
                **dict(zip(_NAMES, numbers, strict=True)),
                **dict(zip(_DETAILS, details, strict=True)),
            )


def _json(text: Any) -> Any:
    try:
        return None if text is None else json.loads(text, parse_constant=reject_constant)
    except (ValueError, TypeError, RecursionError):
        return None
