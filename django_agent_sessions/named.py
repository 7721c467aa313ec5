"""Sessions, and what belongs to them, found by their names, in one statement that is written once.

Every run of an agent begins with it. The ORM can say it too, but takes several times as long to
say it as the database to answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar
from uuid import UUID

from django.db import connections, models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.expressions import Col

from . import prepared
from .models import Session, SessionAgent, SessionMultiAgent

M = TypeVar("M", bound=models.Model)

_Field: TypeAlias = "models.Field[Any, Any]"

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
        owner: Primary key of its owner; None finds everybody's.

    Returns:
        The row; None if there is none, or it is somebody else's.
    """
    found = _read(using, [Session], _names(namespace, session_id, owner))
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
    found = _read(using, [SessionAgent], {_AGENT_OF: session, _AGENT_ID: agent_id})
    return _made(using, SessionAgent, found[0]) if found else None


def agents(using: str, session: UUID) -> list[SessionAgent]:
    """Reads all agents of a session, the oldest first.

    Args:
        using: As for :func:`session`.
        session: Primary key of the session.

    Returns:
        The rows.
    """
    return _all(using, SessionAgent, {_AGENT_OF: session})


def multi_agents(using: str, session: UUID) -> list[SessionMultiAgent]:
    """Reads all orchestrators of a session, the oldest first.

    Args:
        using: As for :func:`session`.
        session: Primary key of the session.

    Returns:
        The rows.
    """
    return _all(using, SessionMultiAgent, {_MULTI_AGENT_OF: session})


def agent_and_session(
    using: str, namespace: str, session_id: str, owner: Any, agent_id: str
) -> SessionAgent | None:
    """Reads an agent, and its session with it.

    Args:
        using: As for :func:`session`.
        namespace: As for :func:`session`.
        session_id: As for :func:`session`.
        owner: As for :func:`session`.
        agent_id: The agent's name.

    Returns:
        The agent's row, which has its session's; None if there is none, or it is somebody else's.
    """
    values = {**_names(namespace, session_id, owner), _AGENT_ID: agent_id}
    found = _read(using, [SessionAgent, Session], values)
    if not found:
        return None
    row = _made(using, SessionAgent, found[0])
    row.session = _made(using, Session, found[0])
    return row


def _all(using: str, model: type[M], values: Mapping[_Field, Any]) -> list[M]:
    rows = [_made(using, model, found) for found in _read(using, [model], values)]
    # Keys are ordered in time.
    return sorted(rows, key=lambda row: row.pk)


def _names(namespace: str, session_id: str, owner: Any) -> dict[_Field, Any]:
    names: dict[_Field, Any] = {_NAMESPACE: namespace, _SESSION_ID: session_id}
    if owner is not None:
        names[_OWNER] = owner
    return names


def _read(
    using: str, tables: Sequence[type[models.Model]], values: Mapping[_Field, Any]
) -> list[dict[_Field, Any]]:
    """Reads the rows of a table, or of an agent's with its session's, as the driver gives it."""
    connection = connections[using]
    fields = [field for table in tables for field in table._meta.concrete_fields]
    sql = _select(connection, fields, tables, tuple(values))
    parameters = [
        field.get_db_prep_value(value, connection, prepared=False)
        for field, value in values.items()
    ]
    found = prepared.fetch(connection, sql, parameters)
    if found is None:
        with connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            found = cursor.fetchall()
    return [dict(zip(fields, row, strict=True)) for row in found]


def _made(using: str, model: type[M], found: Mapping[_Field, Any]) -> M:
    connection = connections[using]
    values = {field: found[field] for field in model._meta.concrete_fields}
    for field in _converted(connection, model):
        column = field.get_col(model._meta.db_table)
        for convert in _converters(connection, column):
            values[field] = convert(values[field], column, connection)
    return model.from_db(using, [str(field.attname) for field in values], list(values.values()))


# Most fields are what the driver gives, and to ask each of them takes longer than to convert the
# others. A converter itself belongs to its connection, and is not kept.
_to_convert: dict[tuple[str, type[models.Model]], list[_Field]] = {}


def _converted(connection: BaseDatabaseWrapper, model: type[models.Model]) -> list[_Field]:
    known = (connection.vendor, model)
    if known not in _to_convert:
        _to_convert[known] = [
            field
            for field in model._meta.concrete_fields
            if _converters(connection, field.get_col(model._meta.db_table))
        ]
    return _to_convert[known]


def _converters(connection: BaseDatabaseWrapper, column: Col) -> list[Callable[..., Any]]:
    return [*connection.ops.get_db_converters(column), *column.get_db_converters(connection)]


_statements: dict[tuple[str, tuple[_Field, ...]], str] = {}


def _select(
    connection: BaseDatabaseWrapper,
    fields: Iterable[_Field],
    tables: Sequence[type[models.Model]],
    given: tuple[_Field, ...],
) -> str:
    shape = (connection.vendor, given)
    if shape not in _statements:
        quote = connection.ops.quote_name

        def column(field: _Field) -> str:
            return f"{quote(field.model._meta.db_table)}.{quote(str(field.column))}"

        joined = " INNER JOIN ".join(quote(table._meta.db_table) for table in tables)
        if len(tables) > 1:
            joined += f" ON {column(_KEY)} = {column(_AGENT_OF)}"
        _statements[shape] = (
            f"SELECT {', '.join(map(column, fields))} FROM {joined} "
            f"WHERE {' AND '.join(f'{column(field)} = %s' for field in given)}"
        )
    return _statements[shape]
