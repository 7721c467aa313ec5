"""Reading of the SQLite files of the OpenAI Agents SDK's ``AdvancedSQLiteSession``.

The tables are those of openai-agents 0.24, ``agents/extensions/memory/advanced_sqlite_session.py``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from django_agent_sessions.exceptions import ConfigurationError
from django_agent_sessions.store.importing import plausible_count
from django_agent_sessions.store.snapshots import BRANCH_NAMES
from django_agent_sessions.values.records import AgentState, TurnCost

from .openai_rows import parse_database_time, session_location
from .openai_sources import MAIN_BRANCH_ID, OpenAISQLiteSource
from .openai_tables import Database
from .sources import Skipped, SourceAgent, SourceBranch
from .untrusted import MAX_INTEGER

_TOKENS = ("requests", "input_tokens", "output_tokens", "total_tokens")
_CACHED = {"cached_tokens": "cache_read_tokens", "cache_write_tokens": "cache_write_tokens"}
_DETAILS = ("input_tokens_details", "output_tokens_details")


class OpenAIAdvancedSQLiteSource(OpenAISQLiteSource):
    """The sessions in a file of ``AdvancedSQLiteSession``, with their branches.

    Each branch has all items that ``get_items(branch_id=…)`` returns, including those before the
    fork. The branch ``"main"`` is 0; the others are numbered from 1 in the order of creation.
    Items are read in the order of writing, so that an interrupted import can be continued. A
    session that only ``SQLiteSession`` wrote has no branches.

    The names of branches, including deleted ones, and the usage of each turn are read, too, so
    that ``AdvancedDjangoSession`` can continue with them.

    The metadata contains the numbers of the branches by name in ``"openai_branches"``, and their
    usage, as ``get_session_usage(branch_id)`` returns it, in ``"openai_usage"``. The session's
    token counters are the sum over all branches.
    """

    kind = "openai-advanced-sqlite"

    def _check_branches(self, database: Database) -> None:
        structure = {"id", "session_id", "message_id", "branch_id", "sequence_number"}
        if not structure <= database.columns("message_structure"):
            raise ConfigurationError(
                f"{database.label} has no table 'message_structure' of AdvancedSQLiteSession: if "
                "SQLiteSession wrote it, import it as openai-sqlite"
            )

    def _session_columns(
        self, database: Database, key: bytes, *more: Any
    ) -> tuple[Mapping[str, Any], Sequence[Skipped]]:
        branches = self._branches(database, key)
        if not branches:
            return {}, ()
        metadata: dict[str, Any] = {
            "openai_branches": {
                _display_name(branch): number for branch, number in branches.items()
            }
        }
        columns: dict[str, Any] = {"metadata": metadata}
        usage = self._usage(database, key)
        if usage:
            metadata["openai_usage"] = usage
            for tokens in ("input_tokens", "output_tokens"):
                columns[tokens] = sum(used[tokens] for used in usage.values())
            columns |= _cached_tokens(_turn_costs(database, key, branches))
        return columns, self._orphans(database, key)

    def _agent(self, database: Database, key: bytes) -> SourceAgent:
        found, numbers = super()._agent(database, key), self._branches(database, key)
        if not numbers:
            return found
        created_by_branch = dict(
            database.run(
                "SELECT branch_id, MIN(created_at) FROM message_structure "
                "WHERE session_id = %s GROUP BY branch_id",
                [key],
            )
            if "created_at" in database.columns("message_structure")
            else ()
        )
        deleted = self._deleted_names(database, key, numbers)
        names = {BRANCH_NAMES: {"deleted": deleted, "cleared": []}} if deleted else {}
        return replace(
            found,
            data=AgentState(internal_state=names),
            branches=[
                SourceBranch(
                    number,
                    branch.decode("utf-8", "replace"),
                    parse_database_time(created_by_branch.get(branch)),
                )
                for branch, number in numbers.items()
                if number
            ],
            costs=list(_turn_costs(database, key, numbers)) if self._has_usage(database) else (),
        )

    def _has_shared_items(self, database: Database, key: bytes) -> bool:
        return len(self._branches(database, key)) > 1

    def _deleted_names(
        self, database: Database, key: bytes, numbers: Mapping[bytes, int]
    ) -> list[str]:
        if "branch_id" not in database.columns("branch_reservations"):
            return []
        found = database.run(
            "SELECT branch_id FROM branch_reservations WHERE session_id = %s ORDER BY rowid",
            [key],
        )
        return [_display_name(branch) for (branch,) in found if branch not in numbers]

    def _has_usage(self, database: Database) -> bool:
        return {"branch_id", "requests", "total_tokens"} <= database.columns("turn_usage")

    def _branches(self, database: Database, key: bytes) -> dict[bytes, int]:
        found = database.run(
            "SELECT branch_id FROM message_structure WHERE session_id = %s "
            "GROUP BY branch_id ORDER BY MIN(id)",
            [key],
        )
        main, numbers = MAIN_BRANCH_ID.encode(), count(1)
        others = {branch: next(numbers) for (branch,) in found if branch != main}
        return {main: 0, **others} if found else {}

    def _usage(self, database: Database, key: bytes) -> dict[str, dict[str, int]]:
        if not self._has_usage(database):
            return {}
        found = database.run(
            "SELECT branch_id, COUNT(*), SUM(requests), SUM(input_tokens), SUM(output_tokens), "
            "SUM(total_tokens) FROM turn_usage WHERE session_id = %s "
            "GROUP BY branch_id ORDER BY MIN(id)",
            [key],
        )
        return {
            _display_name(branch): dict(
                zip(("turns", *_TOKENS), (value or 0 for value in sums), strict=True)
            )
            for branch, *sums in found
        }

    def _orphans(self, database: Database, key: bytes) -> Sequence[Skipped]:
        [(orphans, first, last)] = database.run(
            f"SELECT COUNT(*), MIN(id), MAX(id) FROM {database.quote(self._messages_table)} "
            "WHERE session_id = %s AND id NOT IN (SELECT message_id "
            "FROM message_structure WHERE session_id = %s)",
            [key, key],
        )
        if not orphans:
            return ()
        where = session_location(self._messages_table, key.decode())
        return (
            Skipped(
                f"{where} id={first}…{last}",
                f"{orphans} items are on no branch; AdvancedSQLiteSession does not return them "
                "either",
            ),
        )

    def _places(self, database: Database, key: bytes) -> Iterator[tuple[int, int]]:
        branches = self._branches(database, key)
        if not branches:
            return super()._places(database, key)
        # Sequence numbers increase within a session, across branches.
        found = database.run(
            f"SELECT m.id, s.branch_id FROM message_structure s "
            f"JOIN {database.quote(self._messages_table)} m "
            "ON m.id = s.message_id AND m.session_id = s.session_id "
            "WHERE s.session_id = %s ORDER BY s.sequence_number, s.id",
            [key],
        )
        # A branch that was created meanwhile has no number.
        return ((item, branches[branch]) for item, branch in found if branch in branches)


def _display_name(branch: bytes) -> str:
    # JSON columns reject NUL; the name is only displayed.
    return branch.decode("utf-8", "replace").replace("\0", "\ufffd")


def _turn_costs(
    database: Database, key: bytes, branches: Mapping[bytes, int]
) -> Iterator[TurnCost]:
    """Yield the usage of the turns of a session."""
    found = database.run(
        f"SELECT branch_id, user_turn_number, {', '.join(_TOKENS + _DETAILS)} "
        "FROM turn_usage WHERE session_id = %s ORDER BY id",
        [key],
    )
    for branch, turn, *columns in found:
        numbers = [0 if value is None else value for value in columns[: len(_TOKENS)]]
        details = map(_json, columns[len(_TOKENS) :])
        valid = all(
            isinstance(value, int) and 0 <= value <= MAX_INTEGER for value in (turn, *numbers)
        )
        if valid and branch in branches:
            yield TurnCost(
                turn=turn,
                branch=branches[branch],
                **dict(zip(_TOKENS, numbers, strict=True)),
                **dict(zip(_DETAILS, details, strict=True)),
            )


def _cached_tokens(costs: Iterable[TurnCost]) -> dict[str, int]:
    """Return the sums of the tokens of a prompt cache, which the details of turns have."""
    sums: Counter[str] = Counter()
    for cost in costs:
        details = cost.input_tokens_details
        for name, column in _CACHED.items() if isinstance(details, dict) else ():
            count = plausible_count(details.get(name))
            if count:
                sums[column] += count
    return dict(sums)


def _json(text: Any) -> Any:
    try:
        return None if text is None else json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return None
