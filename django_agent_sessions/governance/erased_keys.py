"""The data keys of an erased person: they are destroyed, unless a row still needs one of them."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db import Error, connections

from django_agent_sessions import conf
from django_agent_sessions.content import codec
from django_agent_sessions.exceptions import BlobError, EncryptionError
from django_agent_sessions.models import AuditEvent, DataKey, Session
from django_agent_sessions.models.session_databases import databases_with_sessions
from django_agent_sessions.store.contents import has_content_of, reseal

logger = logging.getLogger("django_agent_sessions")

DETAIL = "data_keys"
"""The detail of an audit event with the ids of the keys."""

_PASSES = 5


@dataclass
class PersonKeys:
    """All generations of a person's keys; none without encryption."""

    using: str
    owner: Any
    ids: list[str] = field(init=False)

    def __post_init__(self) -> None:
        current = codec.installed()
        self.ids = [] if current is None else current.keys_of(self.owner)

    def release(self) -> bool:
        """Encrypt what others have by their own keys; return whether no row needs these keys."""
        current = codec.installed()
        if current is None or not self.ids:
            return True
        # Sessions that have another owner since they were read here.
        current.forget()
        return self._reseal() and not self._is_shared() and not self._is_used_elsewhere()

    def _reseal(self) -> bool:
        for _ in range(_PASSES):
            try:
                read, written, _ = reseal(self.using, keys=self.ids)
            except (BlobError, EncryptionError):
                logger.warning("What a person's data key encrypted cannot be read", exc_info=True)
                return False
            if not read:
                return True
            if not written:
                return False
        return False

    def _is_shared(self) -> bool:
        """Return whether other schemas may use these keys, which are in a database for all."""
        keys, connection = key_database(self.using), connections[self.using]
        if keys == self.using or connection.vendor != "postgresql":
            return False
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_catalog.pg_class "
                "WHERE relname = %s AND relkind IN ('r', 'p')",
                [Session._meta.db_table],
            )
            (schemas,) = cursor.fetchone()
        if schemas > 1:
            logger.warning(
                "Database %r has sessions in %d schemas, whose users share the data keys in "
                "database %r, so that none is destroyed",
                self.using,
                schemas,
                keys,
            )
        return bool(schemas > 1)

    def _is_used_elsewhere(self) -> bool:
        databases, unreachable = databases_with_sessions(self.using)
        others = {*databases, *unreachable} - {self.using}
        for alias in sorted(others):
            try:
                if alias not in unreachable and not has_content_of(alias, self.ids):
                    continue
            except Error:
                logger.warning("Database %r could not be searched", alias, exc_info=True)
            return True
        return False

    def destroy(self) -> None:
        """Delete the keys, and forget them in this process."""
        if (current := codec.installed()) is not None and self.ids:
            current.destroy_keys(self.ids)


def destroyed_keys(using: str, person: str) -> list[str]:
    """Return the keys of a person that erasures destroyed, also before one was interrupted."""
    erased = AuditEvent.Action.ERASED
    events = AuditEvent.objects.using(using).filter(action=erased, details__person=person)
    ids = {key for details in events.values_list("details", flat=True) for key in _ids(details)}
    return sorted(ids - existing_keys(ids, using))


def key_database(using: str) -> str:
    """Return the database of the keys, given that of the sessions."""
    options = conf.get_settings().ENCRYPTION or {}
    return str(options.get("KEY_DATABASE") or using)


def existing_keys(ids: Iterable[str], using: str) -> set[str]:
    """Return which of some keys exist, in the database of the keys or of the sessions."""
    wanted = [UUID(key) for key in ids]
    if not wanted:
        return set()
    aliases = {using, key_database(using)}
    return {
        key.hex
        for alias in aliases
        for key in DataKey.objects.using(alias).filter(pk__in=wanted).values_list("pk", flat=True)
    }


def _ids(details: Any) -> list[str]:
    return list(details.get(DETAIL, ())) if isinstance(details, dict) else []
