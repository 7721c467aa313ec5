"""What happens to a user's sessions when the user is deleted: they are deleted, or kept.

Django deletes a user's rows with the user. With ``KEEP_SESSIONS_OF_DELETED_USERS`` the sessions and
what is stored with them stay, without an owner.
"""

from __future__ import annotations

import contextvars
import functools
import logging
from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from django_agent_sessions import audit, conf
from django_agent_sessions.content import codec
from django_agent_sessions.db import bridge
from django_agent_sessions.models import AuditEvent, Session, StoredObject
from django_agent_sessions.models.deletion import ENCRYPTED, MAX_SESSIONS
from django_agent_sessions.models.timeline import object_digest
from django_agent_sessions.models.users import delete_rows_of, users_are_beside
from django_agent_sessions.store.locking import lock_sessions

logger = logging.getLogger("django_agent_sessions")


def before_user_deletion(instance: Any, **kwargs: Any) -> None:
    """Keep the sessions of a user in the transaction that deletes the user; for ``pre_delete``."""
    alias = bridge.database()
    if conf.get_settings().KEEP_SESSIONS_OF_DELETED_USERS and users_are_beside(alias):
        keep_sessions(instance.pk, alias)


def after_user_deletion(instance: Any, using: str, **kwargs: Any) -> None:
    """Keep or delete a user's rows in another database, after the commit; for ``post_delete``."""
    alias = bridge.database()
    if not users_are_beside(alias):
        # In this context, because the block that names the actor may end before the commit.
        run = contextvars.copy_context().run
        transaction.on_commit(functools.partial(run, _after_commit, instance.pk, alias), using)


def keep_sessions(owner: Any, using: str) -> None:
    """Remove the owner of a user's sessions, and record it for each."""
    rows = Session.objects.using(using).filter(owner=owner).order_by("pk").defer(*ENCRYPTED)
    while True:
        with transaction.atomic(using):
            # The rows that are changed are not found again.
            sessions = lock_sessions(rows[:MAX_SESSIONS], removes=True, what="the user owns it")
            if not sessions:
                return
            _remove_owner(sessions, owner, using)


def _remove_owner(sessions: list[Session], owner: Any, using: str) -> None:
    keys = [session.pk for session in sessions]
    _rename_objects(keys, using)
    # In this order: MariaDB computes with the values that it has set before.
    Session.objects.using(using).filter(pk__in=keys).update(
        header_change=F("change") + 1,
        change=F("change") + 1,
        owner=None,
        updated_at=timezone.now(),
    )
    for key in keys:
        codec.remember(key, None)
    details = {key: {"owner": str(owner)} for key in keys}
    audit.record_all(AuditEvent.Action.OWNER_REMOVED, details, using=using)


def _rename_objects(sessions: list[Any], using: str) -> None:
    """Remove the owner of the objects of sessions, by which they are found."""
    objects = StoredObject.objects.using(using)
    found = objects.filter(session__in=sessions).order_by("pk")
    for pk, namespace, scope, key in found.values_list("pk", "namespace", "scope", "key"):
        columns: dict[str, Any] = {"owner": None}
        digest = object_digest(namespace, scope, None, key)
        if objects.filter(digest=digest).exists():
            # It stays with its session, but is not found by its key.
            logger.warning("stored object %s is hidden by one without an owner", pk)
        else:
            columns["digest"] = digest
        objects.filter(pk=pk).update(**columns)


def _after_commit(owner: Any, using: str) -> None:
    if conf.get_settings().KEEP_SESSIONS_OF_DELETED_USERS:
        keep_sessions(owner, using)
    delete_rows_of(owner, using)
