"""Database functions that Django lacks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from django.db.models import (
    BigIntegerField,
    BooleanField,
    Count,
    Exists,
    F,
    Func,
    IntegerField,
    OuterRef,
    Q,
    QuerySet,
    TextField,
    Value,
    Window,
)
from django.db.models.fields.json import KeyTransform
from django.db.models.functions import Coalesce, RowNumber


class _Name(str):
    """A key that Django does not take for an index, if it consists of digits."""

    __slots__ = ()

    def __int__(self) -> int:
        raise ValueError("it is a name")


def value_of(key: str, column: str) -> KeyTransform:
    """Return the value of a key of a JSON object."""
    value = KeyTransform(key, column)
    value.key_name = _Name(key)
    return value


class HasTypeOf(Func):
    """Whether the value of a key of a JSON object has the type of a value.

    SQLite and MariaDB find some values equal to the texts of others.
    """

    output_field = BooleanField()

    def __init__(self, key: str, column: str, value: Any) -> None:
        super().__init__(F(column), Value(f"$.{json.dumps(key)}"))
        kind = next(kind for kind in _JSON_TYPES if isinstance(value, kind))
        self._sqlite, self._mysql = _JSON_TYPES[kind]

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        template = f"JSON_TYPE(%(expressions)s) IN {self._sqlite}"
        return self.as_sql(compiler, connection, template=template, **context)

    def as_mysql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        template = f"JSON_TYPE(JSON_EXTRACT(%(expressions)s)) IN {self._mysql}"
        return self.as_sql(compiler, connection, template=template, **context)

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return "TRUE", []


_NUMBERS = ("('integer', 'real')", "('INTEGER', 'DOUBLE', 'DECIMAL')")
_JSON_TYPES: dict[type, tuple[str, str]] = {
    str: ("('text')", "('STRING')"),
    # Before int, of which it is a subclass.
    bool: ("('true', 'false')", "('BOOLEAN')"),
    int: _NUMBERS,
    float: _NUMBERS,
    list: ("('array')", "('ARRAY')"),
    dict: ("('object')", "('OBJECT')"),
    type(None): ("('null')", "('NULL')"),
}


def value_is(name: str, key: str, column: str, value: Any) -> Q:
    """Return the condition that a key of a JSON object has a value, annotated as ``name``."""
    if not isinstance(value, tuple(_JSON_TYPES)):
        return Q(**{name: value})
    return Q(HasTypeOf(key, column, value), **{name: value})


class TypedText(Value):
    """A text whose type PostgreSQL is told.

    With ``server_side_binding`` a parameter has the type that its place asks for, and some places,
    such as an argument of ``CONCAT``, ask for none.
    """

    def as_postgresql(self, compiler: Any, connection: Any) -> Any:
        sql, params = self.as_sql(compiler, connection)
        return f"{sql}::text", params


class OctetLength(Func):
    """Bytes of a text. PostgreSQL returns them without fetching a long (TOASTed) text."""

    function = "OCTET_LENGTH"
    output_field = BigIntegerField()

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        """Cast to BLOB, because ``LENGTH`` of a text counts characters."""
        return self.as_sql(
            compiler, connection, template="LENGTH(CAST(%(expressions)s AS BLOB))", **context
        )


class Joined(Func):
    """Texts with a separator between them, NULL as an empty one.

    As one node: Django's ``Concat`` nests them, too deep for SQLite's parser.
    """

    function = "CONCAT"
    output_field = TextField()

    def __init__(self, separator: str, *texts: Any, **extra: Any) -> None:
        given: list[Any] = []
        for text in texts:
            given += (TypedText(separator), Coalesce(text, TypedText("")))
        super().__init__(*given[1:], **extra)

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        """Join by the operator, because ``CONCAT`` needs SQLite 3.44."""
        template = "(%(expressions)s)"
        return self.as_sql(compiler, connection, template=template, arg_joiner=" || ", **context)


class _Replaced(Func):
    """A text with the last character of each needle removed, as one node: Django resolves each."""

    output_field = TextField()

    def __init__(self, text: Any, needles: Sequence[str], **extra: Any) -> None:
        super().__init__(text, **extra)
        self.needles = tuple(needles)

    def as_sql(  # type: ignore[override] # the others are for a template, which it has not
        self, compiler: Any, connection: Any, **context: Any
    ) -> Any:
        sql, params = compiler.compile(self.source_expressions[0])
        for needle in self.needles:
            sql, params = f"REPLACE({sql}, %s, %s)", (*params, needle, needle[:-1])
        return sql, params


def count_occurrences(*needles: str) -> Func:
    """Count occurrences of short ASCII texts in payloads, in the database.

    No needle may arise where the last character of another one is removed.
    """
    # Each occurrence is replaced with a text that is one character shorter.
    return Func(
        OctetLength("message"),
        OctetLength(_Replaced("message", needles)),
        template="(%(expressions)s)",
        arg_joiner=" - ",
        output_field=IntegerField(),
    )


def message_count() -> Count:
    """Return an aggregate: the number of messages, one and its copies on other branches once."""
    return Count(Coalesce("source", "id"), distinct=True)


def error_count() -> Count:
    """Return an aggregate: the number of messages that report an error, counted likewise."""
    return Count(Coalesce("source", "id"), distinct=True, filter=Q(has_error=True))


def one_row_each(messages: QuerySet[Any]) -> QuerySet[Any]:
    """Filter one row of each message: its original or, if these rows do not include it, a copy."""
    copies = without_original(messages, messages)
    return messages.filter(Q(source__isnull=True) | Q(pk__in=copies.values("pk")))


def without_original(messages: QuerySet[Any], originals: QuerySet[Any]) -> QuerySet[Any]:
    """Filter one copy of each message whose original is not among ``originals``.

    A copy in the oldest session is preferred, then one on the main branch.
    """
    original = originals.order_by().filter(pk=OuterRef("source"))
    copies = messages.order_by().filter(~Exists(original), source__isnull=False)
    order = ("session_id", "branch", "pk")
    place = Window(RowNumber(), partition_by="source", order_by=order)
    first: QuerySet[Any] = copies.annotate(place=place).filter(place=1)
    return first
