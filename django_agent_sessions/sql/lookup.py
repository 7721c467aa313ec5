"""Read sessions, agents and orchestrators by their ids.

Every run of an agent begins with these queries, and the ORM takes several times as long to build
them as the database to run them. The SQL is built once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar
from uuid import UUID

from django.db import connections, models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.expressions import Col

from django_agent_sessions.content import codec
from django_agent_sessions.models import Session, SessionAgent, SessionMultiAgent
from django_agent_sessions.models.fields import ExactJSONField, with_row
from django_agent_sessions.sql import prepared_statements
from django_agent_sessions.values.ids import SessionKey
from django_agent_sessions.values.owners import EVERYBODY, NOBODY

M = TypeVar("M", bound=models.Model)

_Field: TypeAlias = "models.Field[Any, Any]"
# Pairs instead of a dict, because Django's fields are slow to hash.
_Values: TypeAlias = Sequence[tuple[_Field, Any]]

_KEY = Session._meta.get_field("id")
_KEY_FIELDS: list[_Field] = [
    field for field in Session._meta.concrete_fields if field.name in SessionKey._fields
]
_OWNER = Session._meta.get_field("owner")
_AGENT_OF = SessionAgent._meta.get_field("session")
_MULTI_AGENT_OF = SessionMultiAgent._meta.get_field("session")
_AGENT_ID = SessionAgent._meta.get_field("agent_id")


def get_session(using: str, key: SessionKey, owner: Any) -> Session | None:
    """Read a session; None if it does not exist or has another owner."""
    values = _key_values(key)
    if owner is not EVERYBODY:
        values.append((_OWNER, None if owner is NOBODY else owner))
    rows = _read(using, (Session,), values)
    return _instance(using, Session, rows[0]) if rows else None


def get_agent(using: str, session: UUID, agent_id: str) -> SessionAgent | None:
    """Read an agent of a session; None if it does not exist."""
    rows = _read(using, (SessionAgent,), [(_AGENT_OF, session), (_AGENT_ID, agent_id)])
    return _instance(using, SessionAgent, rows[0]) if rows else None


def list_agents(using: str, session: UUID) -> list[SessionAgent]:
    """Read all agents of a session, oldest first."""
    return _all(using, SessionAgent, [(_AGENT_OF, session)])


def list_multi_agents(using: str, session: UUID) -> list[SessionMultiAgent]:
    """Read all orchestrators of a session, oldest first."""
    return _all(using, SessionMultiAgent, [(_MULTI_AGENT_OF, session)])


def session_and_agent(
    using: str, key: SessionKey, agent_id: str
) -> tuple[Session, SessionAgent | None] | None:
    """Read a session of any owner and one of its agents in one query.

    None if the session does not exist; None for the agent if only the agent does not exist.
    """
    values = [(_AGENT_ID, agent_id), *_key_values(key)]
    rows = _read(using, (Session, SessionAgent), values)
    if not rows:
        return None
    session_columns = len(Session._meta.concrete_fields)
    session = _instance(using, Session, rows[0][:session_columns])
    if rows[0][session_columns] is None:
        return session, None
    return session, _instance(using, SessionAgent, rows[0][session_columns:])


def _key_values(key: SessionKey) -> list[tuple[_Field, Any]]:
    return list(zip(_KEY_FIELDS, key, strict=True))


def _all(using: str, model: type[M], values: _Values) -> list[M]:
    rows = [_instance(using, model, row) for row in _read(using, (model,), values)]
    # Primary keys are ordered by time.
    return sorted(rows, key=lambda row: row.pk)


def _read(
    using: str, tables: tuple[type[models.Model], ...], values: _Values
) -> list[tuple[Any, ...]]:
    """Read the driver's rows of one table, or of a session joined with one of its agents."""
    connection = connections[using]
    conditions = tuple((field, value is None) for field, value in values)
    sql = _select(connection, tables, conditions)
    parameters = [
        field.get_db_prep_value(value, connection, prepared=False)
        for field, value in values
        if value is not None
    ]
    return prepared_statements.fetch(connection, sql, parameters)


def _instance(using: str, model: type[M], row: Sequence[Any]) -> M:
    connection = connections[using]
    names, to_convert = _columns(connection, model)
    values = list(row)
    for index, field in to_convert:
        column = field.get_col(model._meta.db_table)
        for convert in _converters(connection, column):
            values[index] = convert(values[index], column, connection)
    return model.from_db(using, names, values)


_column_cache: dict[tuple[str, type[models.Model]], tuple[list[str], list[tuple[int, _Field]]]] = {}


def _columns(
    connection: BaseDatabaseWrapper, model: type[models.Model]
) -> tuple[list[str], list[tuple[int, _Field]]]:
    """Return the columns of a model, and those with database converters.

    Most columns need no conversion, and asking each of them takes longer than converting the
    others. Converters belong to a connection and are not cached.
    """
    cache_key = (connection.vendor, model)
    if cache_key not in _column_cache:
        fields = model._meta.concrete_fields
        table = model._meta.db_table
        _column_cache[cache_key] = (
            [str(field.attname) for field in fields],
            [
                (index, field)
                for index, field in enumerate(fields)
                if _converters(connection, field.get_col(table))
            ],
        )
    return _column_cache[cache_key]


def _converters(connection: BaseDatabaseWrapper, column: Col) -> list[Callable[..., Any]]:
    return [*connection.ops.get_db_converters(column), *column.get_db_converters(connection)]


_statements: dict[
    tuple[str, tuple[type[models.Model], ...], tuple[tuple[str, bool], ...], bool], str
] = {}


def _select(
    connection: BaseDatabaseWrapper,
    tables: tuple[type[models.Model], ...],
    conditions: Sequence[tuple[_Field, bool]],
) -> str:
    """Return the SQL; each field equals a parameter, or is NULL if its flag is True."""
    names = tuple((field.name, null) for field, null in conditions)
    variant = (connection.vendor, tables, names, codec.is_plain())
    if variant not in _statements:
        quote = connection.ops.quote_name

        def column(field: _Field) -> str:
            return f"{quote(field.model._meta.db_table)}.{quote(str(field.column))}"

        def selected(field: _Field) -> str:
            if not isinstance(field, ExactJSONField):
                return column(field)
            return with_row(connection, field, column(field.model._meta.pk), column(field))

        fields = [field for table in tables for field in table._meta.concrete_fields]
        comparisons = [
            f"{column(field)} {'IS NULL' if null else '= %s'}" for field, null in conditions
        ]
        source = quote(tables[0]._meta.db_table)
        if len(tables) > 1:
            join = f"{column(_AGENT_OF)} = {column(_KEY)} AND {comparisons.pop(0)}"
            source += f" LEFT OUTER JOIN {quote(tables[1]._meta.db_table)} ON {join}"
        _statements[variant] = (
            f"SELECT {', '.join(map(selected, fields))} FROM {source} "
            f"WHERE {' AND '.join(comparisons)}"
        )
    return _statements[variant]
