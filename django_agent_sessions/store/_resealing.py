"""Bring stored content into the form in which it would be written now: encrypted, or plain."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any
from uuid import UUID

from django.db import connections, models, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from django_agent_sessions.content import codec, dialects
from django_agent_sessions.content.codec import Holder
from django_agent_sessions.db.sqlite_secure_delete import secure_delete
from django_agent_sessions.exceptions import EncryptionError
from django_agent_sessions.models import SessionAgent, SessionMessage, StoredPart
from django_agent_sessions.models.content_columns import content_columns_of, content_models
from django_agent_sessions.models.fields import ExactJSONField, decode_payload
from django_agent_sessions.models.shared_text import with_text

from ._object_bytes import COLUMN as PART_COLUMN
from ._object_bytes import holder_of_object

BATCH = 50
"""Rows of one transaction."""

Changes = dict[str, Any]
Progress = Callable[[int, int], None]


def reseal(using: str, *, progress: Progress | None = None) -> tuple[int, int]:
    """Rewrite all content that has not the present form; return the rows read and rewritten.

    A row is written only if it is still what was read, so agents may write meanwhile. A run that
    was interrupted is repeated: rows that have the form are only read.

    Raises EncryptionError for the first row that cannot be decrypted, with its table and key; what
    was rewritten before stays.
    """
    read = written = 0
    tables: list[type[models.Model]] = [*content_models(), StoredPart]
    for model in tables:
        if fields := _text_fields(model):
            batches: Iterator[tuple[int, int]] = _reseal_texts(using, model, fields)
        elif model is StoredPart:
            batches = _reseal_parts(using)
        else:
            continue
        for count, changed in batches:
            read, written = read + count, written + changed
            if progress is not None:
                progress(read, written)
    return read, written


def _text_fields(model: type[models.Model]) -> list[ExactJSONField]:
    if content_columns_of(model).session != "session":
        return []
    return [
        field
        for field in model._meta.concrete_fields
        if isinstance(field, ExactJSONField) and field.is_content
    ]


def _reseal_texts(
    using: str, model: type[models.Model], fields: Sequence[ExactJSONField]
) -> Iterator[tuple[int, int]]:
    connection = connections[using]
    table = _quoted(connection, model._meta.db_table)
    pk: Any = model._meta.pk
    key_column = _quoted(connection, pk.column)
    names = [str(field.column) for field in fields]
    stored = [_quoted(connection, name) for name in names]
    whole = [
        column
        if field.shared_text is None
        else with_text(
            connection.vendor, column, _quoted(connection, str(field.shared_text.column))
        )
        for field, column in zip(fields, stored, strict=True)
    ]
    others = ["session_id", *(["text", "agent_id"] if model is SessionMessage else [])]
    selected = ", ".join(
        [key_column, *stored, *whole, *(_quoted(connection, name) for name in others)]
    )
    last: Any = None
    sql = f"SELECT {selected} FROM {table}"  # noqa: S608 - names of our own columns
    while rows := _rows(connection, sql, key_column, last):
        last = rows[-1][0]
        updates = []
        for row in rows:
            key = pk.to_python(row[0])
            before = dict(zip(names, row[1 : len(names) + 1], strict=True))
            texts = dict(zip(names, row[len(names) + 1 : 2 * len(names) + 1], strict=True))
            session, *message = row[2 * len(names) + 1 :]
            try:
                after = _resealed(key, fields, texts, _uuid(session))
            except EncryptionError as error:
                raise type(error)(f"{model._meta.db_table} {key}: {error}") from error
            if message:
                text, agent = message
                before["text"] = text
                after |= _neutral_text(using, text, texts, after, agent)
            if after:
                updates.append((row[0], before, after))
        yield len(rows), _write(using, table, key_column, updates)


def _resealed(
    key: UUID, fields: Sequence[ExactJSONField], texts: Changes, session: Holder
) -> Changes:
    """Return the columns of a row that have not the present form, in that form."""
    current = codec.installed()
    assert current is not None  # noqa: S101 - the command requires a codec
    if all(text is None or current.is_current(text, session) for text in texts.values()):
        return {}
    changes: Changes = {}
    # A column from which another one is copied is first: see `copied_from`.
    for field in reversed(fields):
        column = str(field.column)
        text = texts[column]
        if text is None:
            continue
        source = content_columns_of(field.model).copied_from.get(field.name)
        if source is not None and text == texts.get(source):
            # They stay equal: the original of such a message is not kept.
            changes[column] = changes[source]
            continue
        opened = current.open_selected(key.hex, codec.split_columns(field.opened_as), text)
        changes[column] = codec.seal(key, field.codec_column, opened, session)
    return changes


def _neutral_text(using: str, text: str, texts: Changes, after: Changes, agent: Any) -> Changes:
    if codec.hides_text():
        return {"text": ""} if text else {}
    if text or "message" not in after:
        return {}
    # Encryption had emptied it.
    dialect = SessionAgent.objects.using(using).values_list("dialect", flat=True).get(pk=agent)
    payload = decode_payload(after.get("redact_message") or after["message"])
    return {"text": dialects.get(dialect).summary(payload).text}


def _reseal_parts(using: str) -> Iterator[tuple[int, int]]:
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
    # Each part has up to a megabyte.
    while rows := _rows(connection, sql, key_column, last, limit=4):
        last = rows[-1][0]
        updates = []
        for row_key, data, stored in rows:
            key, stored_bytes = pk.to_python(row_key), bytes(data)
            holder = holder_of_object(using, _uuid(stored))
            if current.is_current_bytes(stored_bytes, holder):
                continue
            try:
                opened = codec.open_bytes(key, PART_COLUMN, stored_bytes)
            except EncryptionError as error:
                raise type(error)(f"{StoredPart._meta.db_table} {key}: {error}") from error
            sealed = codec.seal_bytes(key, PART_COLUMN, opened, holder)
            adapt = connection.Database.Binary
            updates.append((row_key, {"data": adapt(stored_bytes)}, {"data": adapt(sealed)}))
        yield len(rows), _write(using, table, key_column, updates)


def _rows(
    connection: BaseDatabaseWrapper, sql: str, key_column: str, last: Any, *, limit: int = BATCH
) -> list[Any]:
    """Read the rows after a key, by keyset pagination."""
    after, parameters = ("", []) if last is None else (f" WHERE {key_column} > %s", [last])
    with connection.cursor() as cursor:
        cursor.execute(f"{sql}{after} ORDER BY {key_column} LIMIT {limit}", parameters)
        return list(cursor.fetchall())


def _write(
    using: str, table: str, key_column: str, updates: Sequence[tuple[Any, Changes, Changes]]
) -> int:
    """Write rows that are still what was read; return how many were."""
    if not updates:
        return 0
    connection = connections[using]
    # MariaDB's collations treat different texts as equal.
    same = (
        "CAST({0} AS BINARY) = CAST(%s AS BINARY)" if connection.vendor == "mysql" else "{0} = %s"
    )
    written = 0
    with secure_delete(using), transaction.atomic(using), connection.cursor() as cursor:
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
