"""The session that somebody names on a command line."""

from __future__ import annotations

from contextlib import suppress
from uuid import UUID

from django.core.management.base import CommandError

from django_agent_sessions.models import Session


def find_session(using: str, namespace: str, name: str) -> UUID:
    """Finds a session by what it was called."""
    rows = Session.objects.using(using)
    key = rows.named(namespace, name).values_list("pk", flat=True).first()
    if key is None:
        with suppress(ValueError):
            key = rows.filter(pk=UUID(name)).values_list("pk", flat=True).first()
    if key is None:
        where = (
            f" in namespace {namespace!r}" if namespace else "; give its --namespace, or its key"
        )
        raise CommandError(f"there is no session {name!r}{where}")
    return key
