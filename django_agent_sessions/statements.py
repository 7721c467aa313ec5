"""The statements that the ORM cannot say in one round trip: append and pop.

Both decide a message's position by what is in the database at that moment, in a single statement,
so that they are atomic on their own and need no transaction around them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db import connections, models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.expressions import RawSQL

from . import prepared
from .models import Session, SessionAgent, SessionMessage

MOST_ROWS = 200
"""How many messages one statement appends; SQLite takes 500 parts of a UNION at the most."""

_messages = SessionMessage._meta
# The statement finds the first four itself; a new message has none of the others yet.
_NOT_GIVEN = (
    "session",
    "agent",
    "branch",
    "message_id",
    "source",
    "revision",
    "redact_message",
    "redacted_at",
    "redaction",
)
ROW_FIELDS: tuple[models.Field[Any, Any], ...] = tuple(
    field for field in _messages.concrete_fields if field.name not in _NOT_GIVEN
)
"""The fields of a row for :func:`append`, in the order of its values."""


PLACED_FIELDS: tuple[models.Field[Any, Any], ...] = (
    *ROW_FIELDS,
    *(field for field in _messages.concrete_fields if field.name in _NOT_GIVEN),
)
"""The fields of a row for :func:`insert`, in the order of its values: all that there are."""


def append(
    using: str,
    agent: UUID,
    rows: Sequence[Sequence[Any]],
    *,
    branch: int = 0,
    expected: int | None = None,
    epoch: int | None = None,
) -> int | None:
    """Writes messages behind the last one of a conversation: all of them or none.

    Args:
        using: The alias of the database.
        agent: Primary key of the agent.
        rows: At most :data:`MOST_ROWS` rows of database values in the order of
            :data:`ROW_FIELDS`.
        branch: The branch of the conversation.
        expected: Write only if this is the next position.
        epoch: Write only if the session's redaction epoch is still this one.

    Returns:
        The position of the first message; None if nothing was written, because the agent is gone,
        a condition did not hold, or another writer took the position at this very moment.

    Raises:
        IntegrityError: Another writer took a position at this very moment (where the database
            cannot answer that with None).
    """
    connection = connections[using]
    returning = connection.features.can_return_rows_from_bulk_insert
    shape = (_vendor(connection), len(rows), expected is not None, epoch is not None)
    sql = _append_statements.get(shape)
    if sql is None:
        sql = _append_statements[shape] = _append_sql(connection, *shape)
    parameters: list[Any] = [branch]
    for position, row in enumerate(rows):
        parameters += [position, *row]
    agent_value = _messages.get_field("agent").get_db_prep_save(agent, connection)
    parameters += [agent_value, branch, agent_value]
    parameters += [value for value in (epoch, expected) if value is not None]
    if len(rows) == 1 and (found := prepared.fetch(connection, sql, parameters)) is not None:
        return found[0][0] if found else None
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        if returning:
            return min((position for (position,) in cursor.fetchall()), default=None)
        if not cursor.rowcount:
            return None
        # MySQL alone cannot answer with the row it wrote.
        cursor.execute(
            _quoted(
                connection,
                "SELECT {message_id} FROM {messages} WHERE {id} = %s",
            ),
            [rows[0][0]],
        )
        return int(cursor.fetchone()[0])


def insert(using: str, rows: Sequence[Sequence[Any]]) -> None:
    """Writes messages at positions that are known: all of them or none.

    The ORM can say this too, but takes several times as long to say it, and says it in parts.

    Args:
        using: The alias of the database.
        rows: At most :data:`MOST_ROWS` rows of database values in the order of
            :data:`PLACED_FIELDS`.

    Raises:
        IntegrityError: A position or primary key is taken, or the agent is gone.
    """
    connection = connections[using]
    quote = connection.ops.quote_name
    columns = ", ".join(quote(_column(field)) for field in PLACED_FIELDS)
    row = f"({', '.join(['%s'] * len(PLACED_FIELDS))})"
    sql = f"INSERT INTO {quote(_messages.db_table)} ({columns}) VALUES "
    with connection.cursor() as cursor:
        cursor.execute(
            sql + ", ".join([row] * len(rows)), [value for values in rows for value in values]
        )


def pop(using: str, agent: UUID, session: UUID, *, branch: int = 0) -> tuple[int, str, bool] | None:
    """Takes the last message of a conversation away, unless its session is under legal hold.

    Args:
        using: The alias of the database.
        agent: Primary key of the agent.
        session: Primary key of its session.
        branch: The branch of the conversation.

    Returns:
        Its position, its payload's text and whether it was redacted; None if nothing was taken.
        That may be although there is a message, if another caller took it at this very moment.
    """
    connection = connections[using]
    agent_value = _messages.get_field("agent").get_db_prep_save(agent, connection)
    session_value = _messages.get_field("session").get_db_prep_save(session, connection)
    with connection.cursor() as cursor:
        cursor.execute(_pop_sql(connection), [agent_value, branch, session_value])
        found = cursor.fetchone()
    return None if found is None else (found[0], found[1], bool(found[2]))


def contents(
    using: str, agent: UUID, *, branch: int = 0, latest: int | None = None
) -> list[tuple[int, str, bool]]:
    """Reads what was said, redacted where it was redacted.

    The ORM can say this too, but takes longer to say it than the database to answer.

    Args:
        using: The alias of the database.
        agent: Primary key of the agent.
        branch: The branch of the conversation.
        latest: Only that many of the last ones, backwards; None reads all, in order.

    Returns:
        Position, payload's text, and whether it was redacted, of each message.
    """
    connection = connections[using]
    sql = (
        "SELECT {message_id}, COALESCE({redact_message}, {message}), "
        "{redact_message} IS NOT NULL FROM {messages} "
        "WHERE {agent_id} = %s AND {branch} = %s ORDER BY {message_id}"
    )
    parameters = [_messages.get_field("agent").get_db_prep_save(agent, connection), branch]
    if latest is not None:
        sql += " DESC LIMIT %s"
        parameters.append(latest)
    sql = _quoted(connection, sql)
    found = prepared.fetch(connection, sql, parameters)
    if found is None:
        with connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            found = cursor.fetchall()
    return found


_SHARED = {
    "postgresql": " FOR KEY SHARE",
    "mariadb": " LOCK IN SHARE MODE",
    "mysql": " LOCK IN SHARE MODE",
}
"""The lock under which a writer looks at its session's redaction epoch.

Without it a statement that waits for a redaction would go on with the epoch of before. It is the
lock that the foreign key takes anyway, and meets no other writer, only a redaction.
"""


def at_epoch(using: str, session: UUID, epoch: int) -> RawSQL:
    """Makes the condition that nothing was redacted since: for ``filter(session__in=…)``.

    Args:
        using: The alias of the database.
        session: Primary key of the session.
        epoch: The redaction epoch that the writer knows.

    Returns:
        A subquery with the session's key, or with nothing.
    """
    connection = connections[using]
    quote = connection.ops.quote_name
    return RawSQL(  # noqa: S611 - names of our own columns
        f"SELECT {quote('id')} FROM {quote(Session._meta.db_table)} WHERE {quote('id')} = %s "
        f"AND {quote('redaction_epoch')} = %s{_SHARED.get(_vendor(connection), '')}",
        [Session._meta.pk.get_db_prep_save(session, connection), epoch],
    )


# Making the text costs as much as running it, and there are few shapes of it.
_append_statements: dict[tuple[str, int, bool, bool], str] = {}


def _append_sql(
    connection: BaseDatabaseWrapper,
    vendor: str,
    rows: int,
    expected: bool,
    epoch: bool,
) -> str:
    quote = connection.ops.quote_name
    names = [f"c{index}" for index in range(len(ROW_FIELDS))]
    number = "%s::integer" if vendor == "postgresql" else "%s"
    given = _given(vendor, rows, names, [field.cast_db_type(connection) for field in ROW_FIELDS])
    # As of the statement's beginning, as the next position is: where the locked row says something
    # else, the conversation was taken back in time while this waited.
    epoch_then = (
        f"(SELECT t.{quote('redaction_epoch')} FROM {quote(Session._meta.db_table)} t "
        f"WHERE t.{quote('id')} = a.{quote('session_id')})"
    )
    columns = [quote(_column(field)) for field in ROW_FIELDS]
    columns += map(quote, ("session_id", "agent_id", "branch", "message_id", "revision"))
    conditions = "".join(
        [
            f" AND (SELECT s.{quote('redaction_epoch')} FROM {quote(Session._meta.db_table)} s "
            f"WHERE s.{quote('id')} = a.{quote('session_id')}{_SHARED.get(vendor, '')}) = "
            f"{'%s' if epoch else epoch_then}"
            if epoch or vendor in _SHARED
            else "",
            " AND n.next = %s" if expected else "",
        ]
    )
    # One row that meets another is simply not written; of several, a part might be.
    conflict = " ON CONFLICT DO NOTHING" if vendor == "postgresql" and rows == 1 else ""
    returning = (
        f" RETURNING {quote('message_id')}"
        if connection.features.can_return_rows_from_bulk_insert
        else ""
    )
    return (
        f"INSERT INTO {quote(_messages.db_table)} ({', '.join(columns)}) "
        f"SELECT {', '.join(f'r.{name}' for name in names)}, "
        f"a.{quote('session_id')}, a.{quote('id')}, {number}, n.next + r.p, 0 "
        f"FROM ({given}) r "
        f"CROSS JOIN (SELECT COALESCE((SELECT m.{quote('message_id')} + 1 "
        f"FROM {quote(_messages.db_table)} m WHERE m.{quote('agent_id')} = %s "
        f"AND m.{quote('branch')} = %s ORDER BY m.{quote('message_id')} DESC LIMIT 1), 0) "
        f"AS next) n "
        f"CROSS JOIN {quote(SessionAgent._meta.db_table)} a "
        f"WHERE a.{quote('id')} = %s{conditions}{conflict}{returning}"
    )


def _given(vendor: str, rows: int, names: list[str], types: list[str | None]) -> str:
    """Writes a table of parameters: the place of each row in the batch, and its values."""
    names = ["p", *names]
    if vendor != "postgresql":
        first = ", ".join(f"%s AS {name}" for name in names)
        other = ", ".join(["%s"] * len(names))
        return " UNION ALL ".join([f"SELECT {first}", *[f"SELECT {other}"] * (rows - 1)])
    # Without a type, PostgreSQL takes a bare NULL or text for text.
    first = ", ".join(f"%s::{type_}" for type_ in ["integer", *types])
    # Of a union, PostgreSQL would plan each part.
    other = ", ".join(["%s"] * len(names))
    values = ", ".join([f"({first})", *[f"({other})"] * (rows - 1)])
    return f"SELECT * FROM (VALUES {values}) v ({', '.join(names)})"


def _pop_sql(connection: BaseDatabaseWrapper) -> str:
    vendor = _vendor(connection)
    # The session's row first, as a redaction and a hold do: no deadlock, and no hold that comes in
    # between. Within its subquery it is looked at once, before any message.
    free = (
        "EXISTS (SELECT 1 FROM {sessions} s WHERE s.{id} = %s AND NOT s.{legal_hold}"
        f"{_SHARED.get(vendor, '')})"
    )
    where = "{agent_id} = %s AND {branch} = %s AND " + free
    taken = "{message_id}, COALESCE({redact_message}, {message}), {redact_message} IS NOT NULL"
    if vendor == "mariadb":
        # MariaDB cannot select from the table it deletes from, and needs not.
        sql = (
            f"DELETE FROM {{messages}} WHERE {where} "
            f"ORDER BY {{message_id}} DESC LIMIT 1 RETURNING {taken}"
        )
    else:
        lock = " FOR UPDATE" if vendor == "postgresql" else ""
        sql = (
            f"DELETE FROM {{messages}} WHERE {{id}} = (SELECT {{id}} FROM {{messages}} "
            f"WHERE {where} ORDER BY {{message_id}} DESC LIMIT 1{lock}) RETURNING {taken}"
        )
    return _quoted(connection, sql)


def _quoted(connection: BaseDatabaseWrapper, sql: str) -> str:
    quote = connection.ops.quote_name
    columns = {name: quote(name) for name in map(_column, _messages.concrete_fields)}
    return sql.format(
        messages=quote(_messages.db_table),
        sessions=quote(Session._meta.db_table),
        legal_hold=quote("legal_hold"),
        **columns,
    )


def _column(field: models.Field[Any, Any]) -> str:
    return str(field.column)


def _vendor(connection: BaseDatabaseWrapper) -> str:
    if connection.vendor == "mysql" and connection.mysql_is_mariadb:  # type: ignore[attr-defined]
        return "mariadb"
    return connection.vendor
