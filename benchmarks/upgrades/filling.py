"""Filling a database of the first schema by statements that make rows from numbers.

The columns are those of the migration 0001, because the models are those of the newest schema.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from django.contrib.auth.hashers import UNUSABLE_PASSWORD_PREFIX
from django.core.management import call_command
from django.db import connection

EACH = 50
"""Messages of each session."""

CHUNK = 20_000
"""Sessions whose messages are inserted by one statement."""

USERS, DAYS = 1_000, 90
TEXT = 300
"""Bytes of each message's text."""

TRAFFIC = "in use"
"""The id of the session that is read and written during the migrations."""

_START = 1_780_000_000_000
"""Milliseconds since 1970 of the first session."""

_FILLER = ("Could you look at my invoice once more, please? " * 7)[: TEXT - 12]
_NUMBERS = {
    "postgresql": "SELECT n FROM generate_series({0}, {1}) AS numbers (n)",
    "sqlite": "WITH RECURSIVE numbers (n) AS (SELECT {0} UNION ALL SELECT n + 1 FROM numbers "
    "WHERE n < {1}) SELECT n FROM numbers",
    "mysql": "SELECT {0} + seq AS n FROM seq_0_to_{2}",
}
_HEX = {
    "postgresql": "lpad(to_hex({0}), {1}, '0')",
    "sqlite": "printf('%0{1}x', {0})",
    "mysql": "lpad(lower(hex({0})), {1}, '0')",
}
_SESSION = (
    "id, namespace, scope, session_id, session_type, title, metadata, redaction_epoch, redactions, "
    "change_, redaction_change, header_change, feedback_change, message_count, input_tokens, "
    "output_tokens, legal_hold, created_at, updated_at, last_activity_at, owner_id"
)
_AGENT = (
    "id, session_id, agent_id, dialect, state, conversation_manager_state, internal_state, "
    "created_at, updated_at"
)
_MESSAGE = (
    "id, session_id, agent_id, branch, message_id, revision, change_, message, role, text, "
    "input_tokens, output_tokens, latency_ms, model, created_at, updated_at"
)
_USAGE = "dimension, period, key_, sessions, messages, input_tokens, output_tokens, cost, latencies"
_MOMENT = "'2026-06-01 12:00:00'"


def fill(messages: int) -> None:
    """Migrate to the first schema, and insert so many messages with all that belongs to them."""
    started = time.perf_counter()
    for app in ("contenttypes", "auth"):
        call_command("migrate", app, verbosity=0)
    call_command("migrate", "agent_sessions", "0001", verbosity=0)
    sessions = messages // EACH
    _settings("OFF")
    _users()
    _insert("session", _SESSION, _session("n"), 0, sessions)
    _insert("sessionagent", _AGENT, _agent("n"), 0, sessions)
    for first in range(0, sessions, CHUNK):
        count = min(CHUNK, sessions - first) * EACH
        _insert("sessionmessage", _MESSAGE, _message(), first * EACH, count)
    _insert("usagerollup", _USAGE, _usage(), 0, DAYS * (USERS + 10))
    _traffic(sessions)
    _settle()
    seconds = time.perf_counter() - started
    print(f"  {messages:,} messages after {seconds:.0f} s", file=sys.stderr, flush=True)


def traffic_keys() -> tuple[str, str]:
    """Return the keys of the session that is in use and of its agent."""
    return "f" * 32, "e" * 32


def new_message(key: str, session: str, agent: str, position: int) -> tuple[str, list[Any]]:
    """Return the statement that inserts a message, and its parameters."""
    columns = _quoted(_MESSAGE)
    text = f"{position:012}{_FILLER}"
    values = [key, session, agent, 0, position, 0, 0, _payload("user"), "user", text]
    marks = ", ".join(["%s"] * len(values))
    return (
        f"INSERT INTO agent_sessions_sessionmessage ({columns}) "
        f"VALUES ({marks}, NULL, NULL, NULL, '', {_MOMENT}, {_MOMENT})",
        values,
    )


def sums() -> tuple[int, ...]:
    """Return numbers that change if a session, a message, a payload or usage is lost or altered."""
    checksum = {
        "postgresql": "hashtext({})::bigint",
        "sqlite": "crc32({})",
        "mysql": "crc32({})",
    }[connection.vendor]
    # The first schema has a marker in the payload in the place of the text: `_payload`.
    words = f"REPLACE(message, '\x1f{TEXT}\x1f', text)"
    payload = f"concat({words}, text)" if connection.vendor == "mysql" else f"{words} || text"
    session, _ = traffic_keys()
    found: list[int] = []
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            import zlib

            connection.connection.create_function(
                "crc32", 1, lambda text: zlib.crc32(text.encode()), deterministic=True
            )
        for statement in (
            f"SELECT count(*), sum({checksum.format(payload)}), sum(input_tokens), max(latency_ms) "
            f"FROM agent_sessions_sessionmessage WHERE session_id <> '{session}'",
            "SELECT count(*), sum(message_count), sum(input_tokens), sum(output_tokens) "
            f"FROM agent_sessions_session WHERE id <> '{session}'",
            f"SELECT count(*), sum(messages), sum({checksum.format(_quoted('key_'))}) "
            "FROM agent_sessions_usagerollup WHERE dimension IN ('day', 'owner_day')",
        ):
            cursor.execute(statement)
            found += map(int, cursor.fetchone())
    return tuple(found)


def _session(n: str) -> str:
    moment, last = _moment(f"{n} * 1000"), _moment(f"{n} * 1000 + {EACH}")
    return (
        f"{_key(n, 0)}, '', '', {_text(n, 12)}, 'AGENT', '', '{{}}', 0, 0, 0, 0, 0, 0, {EACH}, "
        f"{EACH * 40}, {EACH * 20}, {_false()}, {moment}, {last}, {last}, {n} % {USERS} + 1"
    )


def _agent(n: str) -> str:
    moment = _moment(f"{n} * 1000")
    return (
        f"{_key(n, 1)}, {_key(n, 0)}, 'assistant', 'strands', '{{}}', '{{}}', '{{}}', {moment}, "
        f"{moment}"
    )


def _message() -> str:
    talk, position = f"({_whole(f'n / {EACH}')})", f"(n % {EACH})"
    moment = _moment(f"{talk} * 1000 + {position}")
    user, assistant = (_literal(_payload(role)) for role in ("user", "assistant"))

    def by_role(question: str, answer: str) -> str:
        return f"CASE WHEN n % 2 = 0 THEN {question} ELSE {answer} END"

    text = {"mysql": f"concat({_text('n', 12)}, {_literal(_FILLER)})"}.get(
        connection.vendor, f"{_text('n', 12)} || {_literal(_FILLER)}"
    )
    key = _key(talk, 2, position)
    return (
        f"{key}, {_key(talk, 0)}, {_key(talk, 1)}, 0, {position}, 0, 0, "
        f"{by_role(user, assistant)}, {by_role(_literal('user'), _literal('assistant'))}, {text}, "
        f"{by_role('NULL', '80')}, {by_role('NULL', '40')}, {by_role('NULL', '900')}, '', "
        f"{moment}, {moment}"
    )


def _usage() -> str:
    each = USERS + 10
    number, day = f"(n % {each})", _whole(f"n / {each}")
    date = {
        "postgresql": f"date '2026-03-01' + ({day})::int",
        "sqlite": f"date('2026-03-01', ({day}) || ' days')",
        "mysql": f"date_add('2026-03-01', INTERVAL {day} DAY)",
    }[connection.vendor]
    kinds = "'day'", "'agent'", "'model'", "'namespace'"
    counts = 1, 5, 2, 2
    cases, before = [], 0
    for kind, count in zip(kinds, counts, strict=True):
        before += count
        cases.append(f"WHEN {number} < {before} THEN {kind}")
    kind = f"CASE {' '.join(cases)} ELSE 'owner_day' END"
    return f"{kind}, {date}, {_text(number, 12)}, 10, 500, 2000, 1000, NULL, '{{}}'"


def _traffic(number: int) -> None:
    session, agent = traffic_keys()
    values = _session(str(number)).replace(_key(str(number), 0), f"'{session}'")
    values = values.replace(_text(str(number), 12), f"'{TRAFFIC}'")
    values = values.replace(f", {EACH}, {EACH * 40}, {EACH * 20},", ", 0, NULL, NULL,")
    agents = _agent(str(number)).replace(_key(str(number), 0), f"'{session}'")
    agents = agents.replace(_key(str(number), 1), f"'{agent}'")
    with connection.cursor() as cursor:
        for table, columns, row in (
            ("session", _SESSION, values),
            ("sessionagent", _AGENT, agents),
        ):
            cursor.execute(f"INSERT INTO agent_sessions_{table} ({_quoted(columns)}) SELECT {row}")


def _insert(table: str, columns: str, values: str, first: int, count: int) -> None:
    numbers = _NUMBERS[connection.vendor].format(first, first + count - 1, count - 1)
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO agent_sessions_{table} ({_quoted(columns)}) "
            f"SELECT {values} FROM ({numbers}) AS numbers"
        )


def _users() -> None:
    columns = "id, password, is_superuser, username, first_name, last_name, email, is_staff, "
    columns += "is_active, date_joined"
    false, true = _false(), {"postgresql": "true"}.get(connection.vendor, "1")
    with connection.cursor() as cursor:
        numbers = _NUMBERS[connection.vendor].format(1, USERS, USERS - 1)
        cursor.execute(
            f"INSERT INTO auth_user ({columns}) SELECT n, '{UNUSABLE_PASSWORD_PREFIX}', {false}, "
            f"{_text('n', 12)}, '', '', '', {false}, {true}, {_MOMENT} FROM ({numbers}) AS numbers"
        )


def _key(number: str, kind: int, low: str = "0") -> str:
    """Return the expression of a UUID of version 7: by its number in time, kind and last digits."""
    parts = [
        _HEX[connection.vendor].format(f"({_START} + {number} * 1000 + {low})", 12),
        f"'7{kind:03x}8000'",
        _HEX[connection.vendor].format(f"({number})", 12),
    ]
    if connection.vendor == "mysql":
        return f"CAST(concat({', '.join(parts)}) AS uuid)"
    joined = " || ".join(parts)
    return f"({joined})::uuid" if connection.vendor == "postgresql" else f"({joined})"


def _moment(milliseconds: str) -> str:
    seconds = f"({_START} + {milliseconds}) / 1000.0"
    return {
        "postgresql": f"to_timestamp({seconds})",
        "sqlite": f"strftime('%Y-%m-%d %H:%M:%f', {seconds}, 'unixepoch')",
        "mysql": f"from_unixtime({seconds})",
    }[connection.vendor]


def _text(number: str, digits: int) -> str:
    return {
        "postgresql": f"lpad(({number})::text, {digits}, '0')",
        "sqlite": f"printf('%0{digits}d', {number})",
        "mysql": f"lpad({number}, {digits}, '0')",
    }[connection.vendor]


def _whole(division: str) -> str:
    return division.replace(" / ", " DIV ") if connection.vendor == "mysql" else division


def _false() -> str:
    return "false" if connection.vendor == "postgresql" else "0"


def _payload(role: str) -> str:
    text = "0" * 12 + _FILLER
    message: dict[str, Any] = {"role": role, "content": [{"text": text}]}
    if role == "assistant":
        message["metadata"] = {
            "usage": {"inputTokens": 80, "outputTokens": 40},
            "metrics": {"latencyMs": 900},
        }
    # The first schema has the length of the text, which stands in the next column, in its place.
    return json.dumps(message).replace(text, f"\x1f{len(text)}\x1f")


def _literal(text: str) -> str:
    assert "'" not in text
    # A backslash would be an escape on MariaDB, and a percent sign a parameter.
    assert "\\" not in text
    assert "%" not in text
    return f"'{text}'"


def _quoted(columns: str) -> str:
    """Return the columns; two of them have names that are words of SQL."""
    quote = connection.ops.quote_name
    return columns.replace("change_,", f"{quote('change')},").replace("key_", quote("key"))


def _settings(synchronous: str) -> None:
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute(f"PRAGMA synchronous = {synchronous}")


def _settle() -> None:
    """Make the statistics that a database in use has, and leave nothing for later."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("VACUUM (ANALYZE, FREEZE)")
            cursor.execute("CHECKPOINT")
        elif connection.vendor == "sqlite":
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    _settings("FULL")
