"""SQL of legal holds."""

from __future__ import annotations

from uuid import UUID

from django.db import connections
from django.db.models.expressions import RawSQL

from django_agent_sessions.db.vendors import database_vendor
from django_agent_sessions.models import Session

_SHARED = {
    "postgresql": " FOR KEY SHARE",
    "mariadb": " LOCK IN SHARE MODE",
    "mysql": " LOCK IN SHARE MODE",
}
"""The lock under which a writer reads its session's redaction epoch.

Without it a statement that waits for a redaction would continue with the old epoch. It is the lock
that a foreign key takes: it blocks no other writer, only a redaction.
"""


def free_at_epoch(using: str, session: UUID, epoch: int | None) -> RawSQL:
    """Return a subquery, for ``filter(session__in=…)``.

    It requires that the session is under no legal hold, and a redaction epoch if that is not None.
    """
    connection = connections[using]
    quote = connection.ops.quote_name
    same_epoch = "" if epoch is None else f" AND {quote('redaction_epoch')} = %s"
    return RawSQL(  # noqa: S611 - names of our own columns
        f"SELECT {quote('id')} FROM {quote(Session._meta.db_table)} WHERE {quote('id')} = %s "
        f"AND NOT {quote('legal_hold')}{same_epoch}{_SHARED.get(database_vendor(connection), '')}",
        [
            Session._meta.pk.get_db_prep_save(session, connection),
            *([] if epoch is None else [epoch]),
        ],
    )
