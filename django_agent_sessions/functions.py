"""Functions of databases that Django does not have."""

from __future__ import annotations

from typing import Any

from django.db.models import BigIntegerField, F, Func, IntegerField, TextField, Value
from django.db.models.lookups import Exact

from .querysets import CONTENT_TEXT


class OctetLength(Func):
    """Bytes of a text. PostgreSQL tells them without fetching a long text from where it is kept."""

    function = "OCTET_LENGTH"
    output_field = BigIntegerField()

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        """Counts bytes, where ``length`` of a text counts characters."""
        return self.as_sql(
            compiler, connection, template="LENGTH(CAST(%(expressions)s AS BLOB))", **context
        )


class Bytes(Func):
    """A text as its bytes: MariaDB's and MySQL's usual collations take ``A`` for ``a``."""

    template = "%(expressions)s"

    def as_mysql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        """Compares as binary."""
        template = "CAST(%(expressions)s AS BINARY)"
        return self.as_sql(compiler, connection, template=template, **context)


def same_as_redacted() -> Exact:
    """Tells of a message with a redacted version whether that is all there is of it."""
    return Exact(Bytes(F("message")), Bytes(F("redact_message")))


def counts(needle: str) -> Func:
    """Counts a short ASCII text in payloads, in the database; nothing is read from large ones."""
    # One letter less for each time it is there.
    shorter = Func(
        CONTENT_TEXT,
        Value(needle),
        Value(needle[:-1]),
        function="REPLACE",
        output_field=TextField(),
    )
    return Func(
        OctetLength(CONTENT_TEXT),
        OctetLength(shorter),
        template="(%(expressions)s)",
        arg_joiner=" - ",
        output_field=IntegerField(),
    )
