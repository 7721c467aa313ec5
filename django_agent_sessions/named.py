"""Sessions, and what belongs to them, found by their names, in one statement that is written once.

Every run of an agent begins with it. The ORM can say it too, but takes several times as long to
say it as the database to answer.
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
from .owners import EVERYBODY, NOBODY

M = TypeVar("M", bound=models.Model)

_Field: TypeAlias = "models.Field[Any, Any]"
# Pairs and tuples, because Django's fields are slow to be keys of a dict.
_Values: TypeAlias = Sequence[tuple[_Field, Any]]

_KEY = Session._meta.get_field("id")
_NAMESPACE = Session._meta.get_field("namespace")
_SESSION_ID = Session._meta.get_field("session_id")
_OWNER = Session._meta.get_field("owner")
_AGENT_OF = SessionAgent._meta.get_field("session")
_MULTI_AGENT_OF = SessionMultiAgent._meta.get_field("session")
_AGENT_ID = SessionAgent._meta.get_field("agent_id")


def session(using: str, namespace: str, session_id: str, owner: Any) -> Session | None:
    """Reads a session.

    Args:
        using: The alias of the database.
        namespace: The space of names.
        session_id: The session's name.
        owner: Primary key of its owner, ``NOBODY`` or ``EVERYBODY``.

    Returns:
        The row; None if there is none, or it is somebody else's.
    """
    values: list[tuple[_Field, Any]] = [(_NAMESPACE, namespace), (_SESSION_ID, session_id)]
    if owner is not EVERYBODY:
        values.append((_OWNER, None if owner is NOBODY else owner))
    found = _read(using, (Session,), values)
    return _made(using, Session, found[0]) if found else None


def agent(using: str, session: UUID, agent_id: str) -> SessionAgent | None:
    """Reads an agent of a session.

    Args:
        using: The alias of the database.
        session: Primary key of the session.
        agent_id: The agent's name.

    Returns:
        The row; None if there is none.
    """
    found = _read(using, (SessionAgent,), [(_AGENT_OF, session), (_AGENT_ID, agent_id)])
    return _made(using, SessionAgent, found[0]) if found else None


def agents(using: str, session: UUID) -> list[SessionAgent]:
    """Reads all agents of a session, the oldest first.

    Args:
        using: As for :func:`session`.
        session: Primary key of the session.

    Returns:
        The rows.
    """
    return _all(using, SessionAgent, [(_AGENT_OF, session)])


def multi_agents(using: str, session: UUID) -> list[SessionMultiAgent]:
    """Reads all orchestrators of a session, the oldest first.

    Args:
        using: As for :func:`session`.
        session: Primary key of the session.

    Returns:
        The rows.
    """
    return _all(using, SessionMultiAgent, [(_MULTI_AGENT_OF, session)])


def session_and_agent(
    using: str, namespace: str, session_id: str, agent_id: str
) -> tuple[Session, SessionAgent | None] | None:
    """Reads a session, whoever owns it, and an agent with it.

    Args:
        using: As for :func:`session`.
        namespace: As for :func:`session`.
        session_id: As for :func:`session`.
        agent_id: The agent's name.

    Returns:
        The rows; None for the agent if it is not there, and None if the session is not.
    """
    values = [(_AGENT_ID, agent_id), (_NAMESPACE, namespace), (_SESSION_ID, session_id)]
    found = _read(using, (Session, SessionAgent), values)
    if not found:
        return None
    of_session = len(Session._meta.concrete_fields)
    row = _made(using, Session, found[0][:of_session])
    if found[0][of_session] is None:
        return row, None
    return row, _made(using, SessionAgent, found[0][of_session:])


def _all(using: str, model: type[M], values: _Values) -> list[M]:
    rows = [_made(using, model, found) for found in _read(using, (model,), values)]
    # Keys are ordered in time.
    return sorted(rows, key=lambda row: row.pk)


def _read(
    using: str, tables: tuple[type[models.Model], ...], values: _Values
) -> list[tuple[Any, ...]]:
    """Reads the rows of a table, or of a session with an agent's, as the driver gives them."""
    connection = connections[using]
    given = tuple((field, value is None) for field, value in values)
    sql = _select(connection, tables, given)
    parameters = [
        field.get_db_prep_value(value, connection, prepared=False)
        for field, value in values
        if value is not None
    ]
    found = prepared.fetch(connection, sql, parameters)
    if found is None:
        with connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            found = cursor.fetchall()
    return found


def _made(using: str, model: type[M], found: Sequence[Any]) -> M:
    connection = connections[using]
    names, converted = _columns(connection, model)
    values = list(found)
    for place, field in converted:
        column = field.get_col(model._meta.db_table)
        for convert in _converters(connection, column):
            values[place] = convert(values[place], column, connection)
    return model.from_db(using, names, values)


_known_columns: dict[
    tuple[str, type[models.Model]], tuple[list[str], list[tuple[int, _Field]]]
] = {}


def _columns(
    connection: BaseDatabaseWrapper, model: type[models.Model]
) -> tuple[list[str], list[tuple[int, _Field]]]:
    """Names the columns of a model, and those that are not what the driver gives.

    Most are, and to ask each of them takes longer than to convert the others. A converter itself
    belongs to its connection, and is not kept.
    """
    known = (connection.vendor, model)
    if known not in _known_columns:
        fields = model._meta.concrete_fields
        table = model._meta.db_table
        _known_columns[known] = (
            [str(field.attname) for field in fields],
            [
                (place, field)
                for place, field in enumerate(fields)
                if _converters(connection, field.get_col(table))
            ],
        )
    return _known_columns[known]


def _converters(connection: BaseDatabaseWrapper, column: Col) -> list[Callable[..., Any]]:
    return [*connection.ops.get_db_converters(column), *column.get_db_converters(connection)]


_statements: dict[
    tuple[str, tuple[type[models.Model], ...], tuple[tuple[str, bool], ...]], str
] = {}


def _select(
    connection: BaseDatabaseWrapper,
    tables: tuple[type[models.Model], ...],
    given: Sequence[tuple[_Field, bool]],
) -> str:
    """Writes the statement; each given field equals a parameter, or is NULL."""
    shape = (connection.vendor, tables, tuple((field.name, null) for field, null in given))
    if shape not in _statements:
        quote = connection.ops.quote_name

        def column(field: _Field) -> str:
            return f"{quote(field.model._meta.db_table)}.{quote(str(field.column))}"

        fields = [field for table in tables for field in table._meta.concrete_fields]
        conditions = [f"{column(field)} {'IS NULL' if null else '= %s'}" for field, null in given]
        source = quote(tables[0]._meta.db_table)
        if len(tables) > 1:
            joined = f"{column(_AGENT_OF)} = {column(_KEY)} AND {conditions.pop(0)}"
            source += f" LEFT OUTER JOIN {quote(tables[1]._meta.db_table)} ON {joined}"
        _statements[shape] = (
            f"SELECT {', '.join(map(column, fields))} FROM {source} "
            f"WHERE {' AND '.join(conditions)}"
        )
    return _statements[shape]
