"""Bring stored content into the form in which it would be written now: encrypted, or plain."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connections, models, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from django_agent_sessions.blobs import has_files_of, reseal_files
from django_agent_sessions.content import codec, dialects
from django_agent_sessions.content.codec import Holder, Owned
from django_agent_sessions.db.sqlite_secure_delete import secure_delete
from django_agent_sessions.exceptions import (
    DestroyedKeyError,
    EncryptionError,
    SessionNotFoundError,
)
from django_agent_sessions.models import (
    Session,
    SessionAgent,
    SessionMessage,
    StoredObject,
    StoredPart,
)
from django_agent_sessions.models.content_columns import content_columns_of, content_models
from django_agent_sessions.models.content_field import ContentField
from django_agent_sessions.models.fields import decode_payload
from django_agent_sessions.sql.triggers import permit_change

from ._object_bytes import COLUMN as PART_COLUMN
from ._object_bytes import holder_of_object

BATCH = 50
"""Rows of one transaction."""

_DELETED = (SessionNotFoundError, SessionAgent.DoesNotExist, StoredObject.DoesNotExist)
"""What is raised if a row was deleted after it was read."""

Changes = dict[str, Any]
Progress = Callable[[int, int], None]


class Resealed(NamedTuple):
    """Numbers of rows and files."""

    read: int = 0
    written: int = 0
    erased: int = 0
    """Those that stay as they are, because their data key was destroyed."""


def reseal(
    using: str, *, keys: Sequence[str] | None = None, progress: Progress | None = None
) -> Resealed:
    """Rewrite all content that has not the present form.

    A row is written only if it is still what was read, so agents may write meanwhile. A run that
    was interrupted is repeated: rows that have the form are only read. With the ids of ``keys``,
    only the rows are read that one of them has sealed.

    A column whose data key was destroyed stays as it is. Raises EncryptionError for the first row
    that cannot be decrypted otherwise, with its table and key; what was rewritten before stays.
    """
    total = Resealed()
    for part in _batches(using, keys):
        total = Resealed(*map(sum, zip(total, part, strict=True)))
        if progress is not None:
            progress(total.read, total.written)
    return total


def _batches(using: str, keys: Sequence[str] | None) -> Iterator[tuple[int, int, int]]:
    for model in content_models():
        if fields := _text_fields(model):
            yield from _reseal_texts(using, model, fields, keys)
    yield from _reseal_parts(using, keys)
    yield from reseal_files(using, keys)


def has_content_of(using: str, keys: Sequence[str]) -> bool:
    """Return whether a row contains what one of some keys has sealed."""
    connection = connections[using]
    texts, parts = _beginnings(keys)
    data = [_quoted(connection, "data")]
    conditions: list[tuple[type[models.Model], tuple[str, list[Any]]]] = [
        (StoredPart, _sealed_by(connection, data, parts))
    ]
    for model in content_models():
        if fields := _text_fields(model):
            columns = _stored_texts(connection, fields)
            conditions.append((model, _sealed_by(connection, columns, texts)))
    with connection.cursor() as cursor:
        for model, (condition, parameters) in conditions:
            table = _quoted(connection, model._meta.db_table)
            cursor.execute(f"SELECT 1 FROM {table} WHERE {condition} LIMIT 1", parameters)  # noqa: S608 - names of our own columns
            if cursor.fetchone() is not None:
                return True
    return has_files_of(using, keys)


def _text_fields(model: type[models.Model]) -> list[ContentField]:
    if content_columns_of(model).session not in ("session", "pk"):
        return []
    return [
        field
        for field in model._meta.concrete_fields
        if isinstance(field, ContentField) and field.is_content
    ]


def _reseal_texts(
    using: str,
    model: type[models.Model],
    fields: Sequence[ContentField],
    keys: Sequence[str] | None,
) -> Iterator[tuple[int, int, int]]:
    connection = connections[using]
    table = _quoted(connection, model._meta.db_table)
    pk: Any = model._meta.pk
    key_column = _quoted(connection, pk.column)
    names = [str(field.column) for field in fields]
    stored = _stored_texts(connection, fields)
    others = ["owner_id" if model is Session else "session_id"]
    others += ["text", "agent_id"] if model is SessionMessage else []
    selected = ", ".join([key_column, *stored, *(_quoted(connection, name) for name in others)])
    last: Any = None
    sql = f"SELECT {selected} FROM {table}"  # noqa: S608 - names of our own columns
    condition = None if keys is None else _sealed_by(connection, stored, _beginnings(keys)[0])
    while rows := _rows(connection, sql, key_column, last, condition):
        last = rows[-1][0]
        updates = []
        sessions = []
        erased = 0
        for row in rows:
            key = pk.to_python(row[0])
            texts = dict(zip(names, row[1 : len(names) + 1], strict=True))
            before = dict(texts)
            holder, *message = row[len(names) + 1 :]
            try:
                after, is_erased = _resealed(key, fields, texts, _holder(model, holder))
                erased += is_erased
                if message:
                    text, agent = message
                    before["text"] = text
                    after |= _neutral_text(using, text, texts, after, agent)
            except EncryptionError as error:
                raise type(error)(f"{model._meta.db_table} {key}: {error}") from error
            except _DELETED:
                continue
            if after:
                updates.append((row[0], before, after))
                sessions.append(row[0] if model is Session else holder)
        yield len(rows), _write(using, table, key_column, updates, sessions), erased


def _resealed(
    key: UUID, fields: Sequence[ContentField], texts: Changes, holder: Holder
) -> tuple[Changes, bool]:
    """Return the columns of a row that have not the present form, in that form.

    And whether the data key of one was destroyed, which stays as it is.
    """
    stored = [(field, texts[str(field.column)]) for field in fields]
    if all(text is None or field.is_current(text, holder) for field, text in stored):
        return {}, False
    changes: Changes = {}
    is_erased = False
    for field, text in stored:
        if text is not None:
            try:
                opened = field.open_text(key, text)
            except DestroyedKeyError:
                is_erased = True
                continue
            changes[str(field.column)] = field.seal_text(key, opened, holder)
    return changes, is_erased


def _holder(model: type[models.Model], value: Any) -> Holder:
    """Return whose a row is, given the column that names its session or owner."""
    if model is not Session:
        return _uuid(value)
    users: Any = Session._meta.get_field("owner").remote_field.model
    return Owned(None if value is None else users._meta.pk.to_python(value))


def _stored_texts(connection: Any, fields: Sequence[ContentField]) -> list[str]:
    return [field.as_text(connection, _quoted(connection, str(field.column))) for field in fields]


def _neutral_text(using: str, text: str, texts: Changes, after: Changes, agent: Any) -> Changes:
    if codec.hides_text():
        return {"text": ""} if text else {}
    if text or "message" not in after:
        return {}
    # Encryption had emptied it.
    dialect = SessionAgent.objects.using(using).values_list("dialect", flat=True).get(pk=agent)
    payload = decode_payload(after["message"])
    return {"text": dialects.get(dialect).summary(payload).text}


def _reseal_parts(using: str, keys: Sequence[str] | None) -> Iterator[tuple[int, int, int]]:
    connection: Any = connections[using]
    pk = StoredPart._meta.pk
    table, key_column = _quoted(connection, StoredPart._meta.db_table), _quoted(connection, "id")
    data_column = _quoted(connection, "data")
    current = codec.installed()
    assert current is not None  # noqa: S101 - the command requires a codec
    last: Any = None
    stored_column = _quoted(connection, "stored_id")
    columns = f"{key_column}, {data_column}, {stored_column}"
    sql = f"SELECT {columns} FROM {table}"  # noqa: S608 - names of our own columns
    condition = (
        None if keys is None else _sealed_by(connection, [data_column], _beginnings(keys)[1])
    )
    # Each part has up to a megabyte.
    while rows := _rows(connection, sql, key_column, last, condition, limit=4):
        last = rows[-1][0]
        updates = []
        erased = 0
        for row_key, data, stored in rows:
            key, stored_bytes = pk.to_python(row_key), bytes(data)
            try:
                holder = holder_of_object(using, _uuid(stored))
                if current.is_current_bytes(stored_bytes, holder):
                    continue
                opened = codec.open_bytes(key, PART_COLUMN, stored_bytes)
                sealed = codec.seal_bytes(key, PART_COLUMN, opened, holder)
            except DestroyedKeyError:
                erased += 1
                continue
            except EncryptionError as error:
                raise type(error)(f"{StoredPart._meta.db_table} {key}: {error}") from error
            except _DELETED:
                continue
            adapt = connection.Database.Binary
            updates.append((row_key, {"data": adapt(stored_bytes)}, {"data": adapt(sealed)}))
        yield len(rows), _write(using, table, key_column, updates), erased


def _beginnings(keys: Sequence[str]) -> tuple[list[str], list[bytes]]:
    current = codec.installed()
    assert current is not None  # noqa: S101 - keys are those of a codec
    return current.beginnings(keys)


def _sealed_by(
    connection: Any, columns: Sequence[str], beginnings: Sequence[str] | Sequence[bytes]
) -> tuple[str, list[Any]]:
    """Return the condition that one of some columns begins as one of some keys seals."""
    adapt = connection.Database.Binary
    values = [adapt(value) if isinstance(value, bytes) else value for value in beginnings]
    marks = ", ".join("%s" for _ in values)
    length = len(beginnings[0])
    # The metadata of a session is a JSON string: a quotation mark stands before.
    places = (1,) if isinstance(beginnings[0], bytes) else (1, 2)
    sides = [f"SUBSTR({column}, {n}, {length}) IN ({marks})" for column in columns for n in places]
    return f"({' OR '.join(sides)})", values * len(sides)


def _rows(
    connection: BaseDatabaseWrapper,
    sql: str,
    key_column: str,
    last: Any,
    condition: tuple[str, list[Any]] | None = None,
    *,
    limit: int = BATCH,
) -> list[Any]:
    """Read the rows after a key that meet a condition, by keyset pagination."""
    conditions, parameters = ([], []) if condition is None else ([condition[0]], list(condition[1]))
    if last is not None:
        conditions.append(f"{key_column} > %s")
        parameters.append(last)
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    with connection.cursor() as cursor:
        cursor.execute(f"{sql}{where} ORDER BY {key_column} LIMIT {limit}", parameters)
        return list(cursor.fetchall())


def _write(
    using: str,
    table: str,
    key_column: str,
    updates: Sequence[tuple[Any, Changes, Changes]],
    sessions: Sequence[Any] = (),
) -> int:
    """Write rows that are still what was read; return how many were.

    Their sessions may be under legal hold: the content stays the same.
    """
    if not updates:
        return 0
    connection = connections[using]
    # MariaDB's collations treat different texts as equal.
    same = (
        "CAST({0} AS BINARY) = CAST(%s AS BINARY)" if connection.vendor == "mysql" else "{0} = %s"
    )
    written = 0
    with secure_delete(using), transaction.atomic(using), connection.cursor() as cursor:
        permit_change(using, sessions)
        for key, before, after in updates:
            sets = ", ".join(f"{_quoted(connection, name)} = %s" for name in after)
            conditions = [f"{key_column} = %s"]
            parameters = [*after.values(), key]
            for name, value in before.items():
                column = _quoted(connection, name)
                conditions.append(f"{column} IS NULL" if value is None else same.format(column))
                parameters += [] if value is None else [value]
            where = " AND ".join(conditions)
            sql = f"UPDATE {table} SET {sets} WHERE {where}"  # noqa: S608 - names of our own columns
            cursor.execute(sql, parameters)
            written += cursor.rowcount
    return written


def _quoted(connection: BaseDatabaseWrapper, name: str) -> str:
    return connection.ops.quote_name(name)


def _uuid(value: Any) -> UUID:
    return value if isinstance(value, UUID) else UUID(str(value))
