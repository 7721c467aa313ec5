"""The sessions of an operation: the list's filters, the access rule, and those that it was for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeAlias

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db import router
from django.db.models import QuerySet

from django_agent_sessions.exceptions import ConfigurationError
from django_agent_sessions.models import Operation, Session
from django_agent_sessions.models.access import SessionReach, noting_failures, reach_of
from django_agent_sessions.models.deletion import TOMBSTONE_NAMESPACE
from django_agent_sessions.models.permissions import OPERATION_PERMISSIONS, REVIEWING

Matches: TypeAlias = Callable[[Any, Mapping[str, Any], datetime], QuerySet[Session]]
"""Returns the sessions that a user's list shows with stored criteria, at some time."""

_matches: Matches | None = None


def define_matches(function: Matches) -> None:
    """Set what criteria mean. The admin does, whose filters they are."""
    global _matches
    _matches = function


def sessions_of(operation: Operation) -> QuerySet[Session] | None:
    """Return the sessions that the operation is for; None if its user may do it to none.

    The user, the permissions and the access rule are read anew. None also if the rule fails: the
    sessions that it denies then are still to be done.
    """
    with noting_failures() as failures:
        sessions = _sessions_of(operation)
    return None if failures else sessions


def _sessions_of(operation: Operation) -> QuerySet[Session] | None:
    user = starter_of(operation)
    if user is None or not (reached := reach_of(user, *OPERATION_PERMISSIONS[operation.kind])):
        return None
    if _matches is None:
        raise ConfigurationError(
            "no admin of sessions is loaded, which knows what the filters of an operation mean: "
            'add "django.contrib.admin" to INSTALLED_APPS, or import django_agent_sessions.admin'
        )
    sessions = _matches(user, operation.criteria, operation.created_at)
    if operation.found is not None:
        sessions = sessions.filter(pk__in=operation.found)
    sessions = sessions.using(operation._state.db).filter(created_at__lte=operation.created_at)
    sessions = sessions.exclude(namespace=TOMBSTONE_NAMESPACE)
    return reached.filter(sessions).select_related(None).order_by("pk")


def reviewable_by(operation: Operation) -> SessionReach:
    """Return the sessions of which the operation's user may see notes, labels and reviews."""
    user = starter_of(operation)
    return SessionReach(None) if user is None else reach_of(user, *REVIEWING)


def starter_of(operation: Operation) -> Any | None:
    """Return the user who started an operation; None if erased, deleted or inactive."""
    users = get_user_model()
    rows = users._default_manager.using(router.db_for_read(users))
    try:
        user = rows.filter(pk=operation.started_by).first()
    except (ValueError, ValidationError):
        # The key of an erased user is a pseudonym.
        return None
    return user if user is not None and user.is_active else None
