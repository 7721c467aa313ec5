"""Reading of the SQLite files of the OpenAI Agents SDK's ``AdvancedSQLiteSession``.

The tables are those of openai-agents 0.24, ``agents/extensions/memory/advanced_sqlite_session.py``.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from django_agent_sessions.exceptions import ConfigurationError
from django_agent_sessions.values.records import AgentState

from .openai_rows import parse_database_time, session_location
from .openai_sqlite import MAIN_BRANCH_ID, OpenAISQLiteSource, columns_of, quote_name
from .openai_turns import deleted_branches_state, turn_costs
from .sources import Skipped, SourceAgent, SourceBranch

_USAGE = ("turns", "requests", "input_tokens", "output_tokens", "total_tokens")


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

    def _check(self, connection: sqlite3.Connection) -> None:
        structure = {"id", "session_id", "message_id", "branch_id", "sequence_number"}
        if not structure <= columns_of(connection, "message_structure"):
            raise ConfigurationError(
                f"{self._path} has no table 'message_structure' of AdvancedSQLiteSession: if "
                "SQLiteSession wrote it, import it as openai-sqlite"
            )
        super()._check(connection)

    def _has_branches(self, connection: sqlite3.Connection) -> bool:
        return False

    def _session_columns(
        self, connection: sqlite3.Connection, name: bytes
    ) -> tuple[Mapping[str, Any], Sequence[Skipped]]:
        branches = self._branches(connection, name)
        if not branches:
            return {}, ()
        metadata: dict[str, Any] = {
            "openai_branches": {
                _display_name(branch): number for branch, number in branches.items()
            }
        }
        columns: dict[str, Any] = {"metadata": metadata}
        usage = self._usage(connection, name)
        if usage:
            metadata["openai_usage"] = usage
            for tokens in ("input_tokens", "output_tokens"):
                columns[tokens] = sum(used[tokens] for used in usage.values())
        return columns, self._orphans(connection, name)

    def _agent(self, connection: sqlite3.Connection, name: bytes) -> SourceAgent:
        found, numbers = super()._agent(connection, name), self._branches(connection, name)
        if not numbers:
            return found
        created_by_branch = dict(
            connection.execute(
                "SELECT branch_id, MIN(created_at) FROM message_structure "
                "WHERE session_id = CAST(? AS TEXT) GROUP BY branch_id",
                (name,),
            ).fetchall()
            if "created_at" in columns_of(connection, "message_structure")
            else ()
        )
        return replace(
            found,
            data=AgentState(
                internal_state=deleted_branches_state(
                    self._deleted_names(connection, name, numbers)
                )
            ),
            branches=[
                SourceBranch(
                    number,
                    branch.decode("utf-8", "replace"),
                    parse_database_time(created_by_branch.get(branch)),
                )
                for branch, number in numbers.items()
                if number
            ],
            costs=list(turn_costs(connection, name, numbers))
            if self._has_usage(connection)
            else (),
        )

    def _has_shared_items(self, connection: sqlite3.Connection, name: bytes) -> bool:
        return len(self._branches(connection, name)) > 1

    def _deleted_names(
        self, connection: sqlite3.Connection, name: bytes, numbers: Mapping[bytes, int]
    ) -> list[str]:
        if "branch_id" not in columns_of(connection, "branch_reservations"):
            return []
        found = connection.execute(
            "SELECT branch_id FROM branch_reservations WHERE session_id = CAST(? AS TEXT) "
            "ORDER BY rowid",
            (name,),
        )
        return [_display_name(branch) for (branch,) in found if branch not in numbers]

    def _has_usage(self, connection: sqlite3.Connection) -> bool:
        return {"branch_id", "requests", "total_tokens"} <= columns_of(connection, "turn_usage")

    def _branches(self, connection: sqlite3.Connection, name: bytes) -> dict[bytes, int]:
        found = connection.execute(
            "SELECT branch_id FROM message_structure WHERE session_id = CAST(? AS TEXT) "
            "GROUP BY branch_id ORDER BY MIN(id)",
            (name,),
        ).fetchall()
        main, numbers = MAIN_BRANCH_ID.encode(), count(1)
        others = {branch: next(numbers) for (branch,) in found if branch != main}
        return {main: 0, **others} if found else {}

    def _usage(self, connection: sqlite3.Connection, name: bytes) -> dict[str, dict[str, int]]:
        if not self._has_usage(connection):
            return {}
        found = connection.execute(
            "SELECT branch_id, COUNT(*), SUM(requests), SUM(input_tokens), SUM(output_tokens), "
            "SUM(total_tokens) FROM turn_usage WHERE session_id = CAST(? AS TEXT) "
            "GROUP BY branch_id ORDER BY MIN(id)",
            (name,),
        )
        return {
            _display_name(branch): dict(zip(_USAGE, (value or 0 for value in sums), strict=True))
            for branch, *sums in found
        }

    def _orphans(self, connection: sqlite3.Connection, name: bytes) -> Sequence[Skipped]:
        orphans, first, last = connection.execute(
            f"SELECT COUNT(*), MIN(id), MAX(id) FROM {quote_name(self._messages_table)} "
            "WHERE session_id = CAST(? AS TEXT) AND id NOT IN (SELECT message_id "
            "FROM message_structure WHERE session_id = CAST(? AS TEXT))",
            (name, name),
        ).fetchone()
        if not orphans:
            return ()
        where = session_location(self._messages_table, name.decode())
        return (
            Skipped(
                f"{where} id={first}…{last}",
                f"{orphans} items are on no branch; AdvancedSQLiteSession does not return them "
                "either",
            ),
        )

    def _places(self, connection: sqlite3.Connection, name: bytes) -> Iterator[tuple[int, int]]:
        branches = self._branches(connection, name)
        if not branches:
            return super()._places(connection, name)
        # Sequence numbers increase within a session, across branches.
        found = connection.execute(
            f"SELECT m.id, s.branch_id FROM message_structure s "
            f"JOIN {quote_name(self._messages_table)} m "
            "ON m.id = s.message_id AND m.session_id = s.session_id "
            "WHERE s.session_id = CAST(? AS TEXT) ORDER BY s.sequence_number, s.id",
            (name,),
        )
        # A branch that was created meanwhile has no number.
        return ((key, branches[branch]) for key, branch in found if branch in branches)


def _display_name(branch: bytes) -> str:
    # JSON columns reject NUL; the name is only displayed.
    return branch.decode("utf-8", "replace").replace("\0", "\ufffd")
