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

from . import prepared
from .models import Session, SessionAgent, SessionMultiAgent

M = TypeVar("M", bound=models.Model)

_Field: TypeAlias = "models.Field[Any, Any]"
# Pairs instead of a dict, because Django's fields are slow to hash.
_Values: TypeAlias = Sequence[tuple[_Field, Any]]

_KEY = Session._meta.get_field("id")
_NAMESPACE = Session._meta.get_field("namespace")
_SESSION_ID = Session._meta.get_field("session_id")
_OWNER = Session._meta.get_field("owner")
_AGENT_OF = SessionAgent._meta.get_field("session")
_MULTI_AGENT_OF = SessionMultiAgent._meta.get_field("session")
_AGENT_ID = SessionAgent._meta.get_field("agent_id")


def session(using: str, namespace: str, session_id: str, owner: Any) -> Session | None:
    """Read a session; None if it does not exist or has another owner."""
    rows = _read(using, (Session,), _session_conditions(namespace, session_id, owner))
    return _instance(using, Session, rows[0]) if rows else None


def agent(using: str, session: UUID, agent_id: str) -> SessionAgent | None:
    """Read an agent of a session; None if it does not exist."""
    rows = _read(using, (SessionAgent,), [(_AGENT_OF, session), (_AGENT_ID, agent_id)])
    return _instance(using, SessionAgent, rows[0]) if rows else None


def agents(using: str, session: UUID) -> list[SessionAgent]:
    """Read all agents of a session, oldest first."""
    return _all(using, SessionAgent, [(_AGENT_OF, session)])


def multi_agents(using: str, session: UUID) -> list[SessionMultiAgent]:
    """Read all orchestrators of a session, oldest first."""
    return _all(using, SessionMultiAgent, [(_MULTI_AGENT_OF, session)])


def agent_and_session(
    using: str, namespace: str, session_id: str, owner: Any, agent_id: str
) -> SessionAgent | None:
    """Read an agent and its session in one query; None if either does not exist."""
    values = [*_session_conditions(namespace, session_id, owner), (_AGENT_ID, agent_id)]
    rows = _read(using, (SessionAgent, Session), values)
    if not rows:
        return None
    agent_columns = len(SessionAgent._meta.concrete_fields)
    agent = _instance(using, SessionAgent, rows[0][:agent_columns])
    agent.session = _instance(using, Session, rows[0][agent_columns:])
    return agent


def _all(using: str, model: type[M], values: _Values) -> list[M]:
    rows = [_instance(using, model, row) for row in _read(using, (model,), values)]
    # Primary keys are ordered by time.
    return sorted(rows, key=lambda row: row.pk)


def _session_conditions(namespace: str, session_id: str, owner: Any) -> list[tuple[_Field, Any]]:
    names: list[tuple[_Field, Any]] = [(_NAMESPACE, namespace), (_SESSION_ID, session_id)]
    if owner is not None:
        names.append((_OWNER, owner))
    return names


def _read(
    using: str, tables: tuple[type[models.Model], ...], values: _Values
) -> list[tuple[Any, ...]]:
    """Read the driver's rows of one table, or of an agent joined with its session."""
    connection = connections[using]
    sql = _select(connection, tables, [field for field, _ in values])
    parameters = [
        field.get_db_prep_value(value, connection, prepared=False) for field, value in values
    ]
    rows = prepared.fetch(connection, sql, parameters)
    if rows is None:
        with connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            rows = cursor.fetchall()
    return rows


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


_statements: dict[tuple[str, tuple[type[models.Model], ...], tuple[str, ...]], str] = {}


def _select(
    connection: BaseDatabaseWrapper,
    tables: tuple[type[models.Model], ...],
    conditions: Sequence[_Field],
) -> str:
    variant = (connection.vendor, tables, tuple(field.name for field in conditions))
    if variant not in _statements:
        quote = connection.ops.quote_name

        def column(field: _Field) -> str:
            return f"{quote(field.model._meta.db_table)}.{quote(str(field.column))}"

        fields = [field for table in tables for field in table._meta.concrete_fields]
        joined = " INNER JOIN ".join(quote(table._meta.db_table) for table in tables)
        if len(tables) > 1:
            joined += f" ON {column(_KEY)} = {column(_AGENT_OF)}"
        _statements[variant] = (
            f"SELECT {', '.join(map(column, fields))} FROM {joined} "
            f"WHERE {' AND '.join(f'{column(field)} = %s' for field in conditions)}"
        )
    return _statements[variant]
