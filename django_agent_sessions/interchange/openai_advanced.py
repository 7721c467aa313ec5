"""Reading the SQLite files of the OpenAI Agents SDK's ``AdvancedSQLiteSession``: with branches.

The tables are those of openai-agents 0.24, ``agents/extensions/memory/advanced_sqlite_session.py``.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from django_agent_sessions.exceptions import ConfigurationError
from django_agent_sessions.records import AgentState

from .openai_rows import moment, session_place
from .openai_sqlite import MAIN, OpenAISQLiteSource, columns_of, quoted
from .openai_turns import gone, turn_costs
from .sources import Skipped, SourceAgent, SourceBranch

_USAGE = ("turns", "requests", "input_tokens", "output_tokens", "total_tokens")


class OpenAIAdvancedSQLiteSource(OpenAISQLiteSource):
    """The sessions in a file that ``AdvancedSQLiteSession`` wrote, with their branches.

    Each branch has all the items that ``get_items(branch_id=…)`` gives, those before the fork too.
    The branch ``"main"`` is 0, the others count from 1 in the order in which they were made. Their
    items come in the order in which they were written, so that what is added later comes last. A
    session that only ``SQLiteSession`` wrote is read as it reads it.

    The names of branches, also of those that are gone, and the usage of each turn come with them,
    so that ``AdvancedDjangoSession`` goes on with all of it.

    The metadata says in ``"openai_branches"`` which name has which number, and in
    ``"openai_usage"`` what each branch has used, as ``get_session_usage(branch_id)`` does. The sum
    of all branches is in the session's own counters of tokens.
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

    def _described(
        self, connection: sqlite3.Connection, name: bytes
    ) -> tuple[Mapping[str, Any], Sequence[Skipped]]:
        branches = self._branches(connection, name)
        if not branches:
            return {}, ()
        metadata: dict[str, Any] = {
            "openai_branches": {_shown(branch): number for branch, number in branches.items()}
        }
        columns: dict[str, Any] = {"metadata": metadata}
        usage = self._usage(connection, name)
        if usage:
            metadata["openai_usage"] = usage
            for tokens in ("input_tokens", "output_tokens"):
                columns[tokens] = sum(used[tokens] for used in usage.values())
        return columns, self._strays(connection, name)

    def _agent(self, connection: sqlite3.Connection, name: bytes) -> SourceAgent:
        found, numbers = super()._agent(connection, name), self._branches(connection, name)
        if not numbers:
            return found
        made = dict(
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
            data=AgentState(internal_state=gone(self._reserved(connection, name, numbers))),
            branches=[
                SourceBranch(number, branch.decode("utf-8", "replace"), moment(made.get(branch)))
                for branch, number in numbers.items()
                if number
            ],
            costs=list(turn_costs(connection, name, numbers)) if self._counts(connection) else (),
        )

    def _shares(self, connection: sqlite3.Connection, name: bytes) -> bool:
        return len(self._branches(connection, name)) > 1

    def _reserved(
        self, connection: sqlite3.Connection, name: bytes, numbers: Mapping[bytes, int]
    ) -> list[str]:
        if "branch_id" not in columns_of(connection, "branch_reservations"):
            return []
        found = connection.execute(
            "SELECT branch_id FROM branch_reservations WHERE session_id = CAST(? AS TEXT) "
            "ORDER BY rowid",
            (name,),
        )
        return [_shown(branch) for (branch,) in found if branch not in numbers]

    def _counts(self, connection: sqlite3.Connection) -> bool:
        return {"branch_id", "requests", "total_tokens"} <= columns_of(connection, "turn_usage")

    def _branches(self, connection: sqlite3.Connection, name: bytes) -> dict[bytes, int]:
        found = connection.execute(
            "SELECT branch_id FROM message_structure WHERE session_id = CAST(? AS TEXT) "
            "GROUP BY branch_id ORDER BY MIN(id)",
            (name,),
        ).fetchall()
        main, numbers = MAIN.encode(), count(1)
        others = {branch: next(numbers) for (branch,) in found if branch != main}
        return {main: 0, **others} if found else {}

    def _usage(self, connection: sqlite3.Connection, name: bytes) -> dict[str, dict[str, int]]:
        if not self._counts(connection):
            return {}
        found = connection.execute(
            "SELECT branch_id, COUNT(*), SUM(requests), SUM(input_tokens), SUM(output_tokens), "
            "SUM(total_tokens) FROM turn_usage WHERE session_id = CAST(? AS TEXT) "
            "GROUP BY branch_id ORDER BY MIN(id)",
            (name,),
        )
        return {
            _shown(branch): dict(zip(_USAGE, (value or 0 for value in sums), strict=True))
            for branch, *sums in found
        }

    def _strays(self, connection: sqlite3.Connection, name: bytes) -> Sequence[Skipped]:
        strays, first, last = connection.execute(
            f"SELECT COUNT(*), MIN(id), MAX(id) FROM {quoted(self._messages_table)} "
            "WHERE session_id = CAST(? AS TEXT) AND id NOT IN (SELECT message_id "
            "FROM message_structure WHERE session_id = CAST(? AS TEXT))",
            (name, name),
        ).fetchone()
        if not strays:
            return ()
        where = session_place(self._messages_table, name.decode())
        return (
            Skipped(
                f"{where} id={first}…{last}",
                f"{strays} items are on no branch, so that AdvancedSQLiteSession does not give "
                "them either",
            ),
        )

    def _places(self, connection: sqlite3.Connection, name: bytes) -> Iterator[tuple[int, int]]:
        branches = self._branches(connection, name)
        if not branches:
            return super()._places(connection, name)
        # A sequence number is larger than any before it in its session, on whatever branch.
        found = connection.execute(
            f"SELECT m.id, s.branch_id FROM message_structure s "
            f"JOIN {quoted(self._messages_table)} m "
            "ON m.id = s.message_id AND m.session_id = s.session_id "
            "WHERE s.session_id = CAST(? AS TEXT) ORDER BY s.sequence_number, s.id",
            (name,),
        )
        # A branch that was made a moment ago has no number yet.
        return ((key, branches[branch]) for key, branch in found if branch in branches)


def _shown(branch: bytes) -> str:
    # JSON columns refuse NUL; a name is only text to show.
    return branch.decode("utf-8", "replace").replace("\0", "\ufffd")
