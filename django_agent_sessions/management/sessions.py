"""The session that a command line names."""

from __future__ import annotations

from contextlib import suppress
from uuid import UUID

from django.core.management.base import CommandError

from django_agent_sessions.models import Session


def find_session(using: str, namespace: str, name: str) -> UUID:
    """Return the primary key of the session with this session id or primary key."""
    rows = Session.objects.using(using)
    key = rows.named(namespace, name).values_list("pk", flat=True).first()
    if key is None:
        with suppress(ValueError):
            key = rows.filter(pk=UUID(name)).values_list("pk", flat=True).first()
    if key is None:
        hint = (
            f" in namespace {namespace!r}" if namespace else "; use --namespace or its primary key"
        )
        raise CommandError(f"session {name!r} does not exist{hint}")
    return key
