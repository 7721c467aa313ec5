"""Read sessions, agents and orchestrators by their ids, and lists of sessions.

Every run of an agent begins with these queries, and the ORM takes several times as long to build
them as the database to run them. The SQL and the columns that need a conversion are kept, and rows
are named tuples of the columns that records need; ARCHITECTURE.md has what that gains.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

from django.db import connections, models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.expressions import Col

from django_agent_sessions.content import codec
from django_agent_sessions.models import Session, SessionAgent, SessionMultiAgent
from django_agent_sessions.models.content_field import ContentField, with_row
from django_agent_sessions.sql import cursors
from django_agent_sessions.values.ids import SessionKey
from django_agent_sessions.values.owners import EVERYBODY, NOBODY

_Field: TypeAlias = "models.Field[Any, Any]"
# Pairs instead of a dict, because Django's fields are slow to hash.
_Values: TypeAlias = Sequence[tuple[_Field, Any]]

_NOT_IN_RECORDS = (
    "origin",
    "has_errors",
    "redactions",
    "change",
    "redaction_change",
    "header_change",
    "feedback_change",
    "last_write",
    "removed_messages",
    "main_name",
)

_KEY = Session._meta.get_field("id")
_KEY_FIELDS: list[_Field] = [
    field for field in Session._meta.concrete_fields if field.name in SessionKey._fields
]
_OWNER = Session._meta.get_field("owner")
_PLACE: list[Any] = [Session._meta.get_field(name) for name in ("namespace", "scope")]
_ACTIVITY = Session._meta.get_field("last_activity_at")
_AGENT_OF = SessionAgent._meta.get_field("session")
_MULTI_AGENT_OF = SessionMultiAgent._meta.get_field("session")
_AGENT_ID = SessionAgent._meta.get_field("agent_id")


class _Columns(NamedTuple):
    """The columns that are read of a model."""

    fields: list[_Field]
    row: Callable[..., Any]  # makes a named tuple of an iterable of their values


def _columns_of(model: type[models.Model]) -> _Columns:
    columns: Sequence[Any] = model._meta.concrete_fields
    fields = [field for field in columns if field.name not in _NOT_IN_RECORDS]
    named = namedtuple(model.__name__, [str(field.attname) for field in fields])  # type: ignore[misc] # the model's
    return _Columns(fields, named._make)


_COLUMNS: dict[type[models.Model], _Columns] = {
    model: _columns_of(model) for model in (Session, SessionAgent, SessionMultiAgent)
}


def get_session(using: str, key: SessionKey, owner: Any) -> Any | None:
    """Read a session; None if it does not exist or has another owner."""
    values = [*_key_values(key), *_owner_values(owner)]
    rows = _read(using, (Session,), values)
    return _named(using, Session, rows)[0] if rows else None


def recent_sessions(
    using: str,
    owner: Any,
    namespace: str,
    scope: str,
    *,
    limit: int,
    after: tuple[datetime, UUID] | None = None,
) -> list[Any]:
    """Read sessions of a namespace and scope, most recently active first."""
    if limit < 0:
        raise ValueError("limit must not be negative")
    connection = connections[using]
    activity, key = _column(connection, _ACTIVITY), _column(connection, _KEY)
    values = [*_owner_values(owner), *zip(_PLACE, (namespace, scope), strict=True)]
    condition = ""
    if after is not None:
        # A row value, which the index supports.
        condition = f" AND {activity} <= %s AND ({activity}, {key}) < (%s, %s)"
    order = f"{activity} DESC, {key} DESC"
    if owner is NOBODY and connection.vendor == "postgresql":
        # For `owner_id IS NULL`, PostgreSQL reads the owner's index in order only if the owner is
        # in ORDER BY; it scans the sessions of all users otherwise. MariaDB uses the index only
        # without it.
        order = f"{_column(connection, _OWNER)}, {order}"
    sql = _select(connection, (Session,), values)
    parameters = _parameters(connection, values)
    if after is not None:
        fields = (_ACTIVITY, _ACTIVITY, _KEY)
        parameters += _parameters(connection, list(zip(fields, (after[0], *after), strict=True)))
    sql += f"{condition} ORDER BY {order} LIMIT {limit:d}"
    rows = cursors.fetch_rows(connection, sql, parameters)
    return _named(using, Session, rows)


def get_agent(using: str, session: UUID, agent_id: str) -> Any | None:
    """Read an agent of a session; None if it does not exist."""
    rows = _read(using, (SessionAgent,), [(_AGENT_OF, session), (_AGENT_ID, agent_id)])
    return _named(using, SessionAgent, rows)[0] if rows else None


def list_agents(using: str, session: UUID) -> list[Any]:
    """Read all agents of a session, oldest first."""
    return _all(using, SessionAgent, [(_AGENT_OF, session)])


def list_multi_agents(using: str, session: UUID) -> list[Any]:
    """Read all orchestrators of a session, oldest first."""
    return _all(using, SessionMultiAgent, [(_MULTI_AGENT_OF, session)])


def session_and_agent(using: str, key: SessionKey, agent_id: str) -> tuple[Any, Any | None] | None:
    """Read a session of any owner and one of its agents in one query.

    None if the session does not exist; None for the agent if only the agent does not exist.
    """
    values = [(_AGENT_ID, agent_id), *_key_values(key)]
    rows = _read(using, (Session, SessionAgent), values)
    if not rows:
        return None
    of_session = len(_COLUMNS[Session].fields)
    (session,) = _named(using, Session, [rows[0][:of_session]])
    if rows[0][of_session] is None:
        return session, None
    return session, _named(using, SessionAgent, [rows[0][of_session:]])[0]


def session_and_agents(using: str, key: SessionKey) -> tuple[Any, list[Any], bool] | None:
    """Read a session of any owner, all its agents, and whether it has orchestrators; or None."""
    rows = _read(using, (Session, SessionAgent, SessionMultiAgent), _key_values(key))
    if not rows:
        return None
    of_session = len(_COLUMNS[Session].fields)
    (session,) = _named(using, Session, [rows[0][:of_session]])
    agents = [row[of_session:-1] for row in rows if row[of_session] is not None]
    in_order = sorted(_named(using, SessionAgent, agents), key=lambda row: row.id)
    return session, in_order, bool(rows[0][-1])


def _key_values(key: SessionKey) -> list[tuple[_Field, Any]]:
    return list(zip(_KEY_FIELDS, key, strict=True))


def _owner_values(owner: Any) -> list[tuple[_Field, Any]]:
    return [] if owner is EVERYBODY else [(_OWNER, None if owner is NOBODY else owner)]


def _all(using: str, model: type[models.Model], values: _Values) -> list[Any]:
    rows = _named(using, model, _read(using, (model,), values))
    # Primary keys are ordered by time.
    return sorted(rows, key=lambda row: row.id)


def _read(
    using: str, tables: tuple[type[models.Model], ...], values: _Values
) -> list[tuple[Any, ...]]:
    """Read the rows of one table, or of a session joined with its agents.

    A third table is only asked whether it has rows of the session.
    """
    connection = connections[using]
    sql = _select(connection, tables, values)
    return cursors.fetch_rows(connection, sql, _parameters(connection, values))


def _parameters(connection: BaseDatabaseWrapper, values: _Values) -> list[Any]:
    return [
        field.get_db_prep_value(value, connection, prepared=False)
        for field, value in values
        if value is not None
    ]


def _named(using: str, model: type[models.Model], rows: Sequence[Sequence[Any]]) -> list[Any]:
    """Return the database's rows with Python's values, as named tuples."""
    connection = connections[using]
    # Converters belong to a connection and are not cached.
    converters = [
        (index, column, _converters(connection, column))
        for index, column in _converted_columns(connection, model)
    ]
    found = []
    for row in rows:
        values = list(row)
        for index, column, converts in converters:
            for convert in converts:
                values[index] = convert(values[index], column, connection)
        found.append(_COLUMNS[model].row(values))
    return found


_converted: dict[tuple[str, type[models.Model]], list[tuple[int, Col]]] = {}


def _converted_columns(
    connection: BaseDatabaseWrapper, model: type[models.Model]
) -> list[tuple[int, Col]]:
    """Return the columns with database converters.

    Most columns need no conversion, and asking each of them takes longer than converting the
    others.
    """
    cache_key = (connection.vendor, model)
    if cache_key not in _converted:
        table = model._meta.db_table
        columns = [field.get_col(table) for field in _COLUMNS[model].fields]
        _converted[cache_key] = [
            (index, column)
            for index, column in enumerate(columns)
            if _converters(connection, column)
        ]
    return _converted[cache_key]


def _converters(connection: BaseDatabaseWrapper, column: Col) -> list[Callable[..., Any]]:
    return [*connection.ops.get_db_converters(column), *column.get_db_converters(connection)]


_statements: dict[
    tuple[str, tuple[type[models.Model], ...], tuple[tuple[str, bool], ...], bool], str
] = {}


def _select(
    connection: BaseDatabaseWrapper, tables: tuple[type[models.Model], ...], values: _Values
) -> str:
    """Return the SQL; each field equals a parameter, or is NULL if its value is None."""
    names = tuple((field.name, value is None) for field, value in values)
    form = (connection.vendor, tables, names, codec.is_plain())
    if form not in _statements:

        def selected(field: _Field) -> str:
            column = _column(connection, field)
            if not isinstance(field, ContentField):
                return column
            return with_row(connection, field, _column(connection, field.model._meta.pk), column)

        columns = [selected(field) for table in tables[:2] for field in _COLUMNS[table].fields]
        comparisons = [
            f"{_column(connection, field)} {'IS NULL' if value is None else '= %s'}"
            for field, value in values
        ]
        quote = connection.ops.quote_name
        source = quote(tables[0]._meta.db_table)
        if len(tables) > 1:
            owned = f"{_column(connection, _AGENT_OF)} = {_column(connection, _KEY)}"
            join = f"{owned} AND {comparisons.pop(0)}" if values[0][0] is _AGENT_ID else owned
            source += f" LEFT OUTER JOIN {quote(tables[1]._meta.db_table)} ON {join}"
        if len(tables) > 2:
            owned = f"{_column(connection, _MULTI_AGENT_OF)} = {_column(connection, _KEY)}"
            columns.append(
                f"EXISTS (SELECT 1 FROM {quote(tables[2]._meta.db_table)} WHERE {owned})"
            )
        _statements[form] = (
            f"SELECT {', '.join(columns)} FROM {source} WHERE {' AND '.join(comparisons)}"
        )
    return _statements[form]


def _column(connection: BaseDatabaseWrapper, field: Any) -> str:
    quote = connection.ops.quote_name
    return f"{quote(field.model._meta.db_table)}.{quote(field.column)}"
