"""What may be changed of a session beside what was said in it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypedDict

from django.utils import timezone

from django_agent_sessions.exceptions import LegalHoldError
from django_agent_sessions.models import Session

from .cleaning import cleaned_metadata, cleaned_title


class SessionChanges(TypedDict, total=False):
    """What :meth:`SessionStore.update` changes; what is not there stays as it is."""

    title: str
    metadata: Mapping[str, Any]
    archived: bool
    expires_at: datetime | None


def changed_columns(changes: SessionChanges, using: str) -> dict[str, Any]:
    """Checks changes, and says which columns get which values."""
    columns: dict[str, Any] = {}
    if "title" in changes:
        columns["title"] = cleaned_title(changes["title"])
    if "metadata" in changes:
        columns["metadata"] = cleaned_metadata(changes["metadata"], using)
    if "archived" in changes:
        columns["archived_at"] = timezone.now() if changes["archived"] else None
    if "expires_at" in changes:
        columns["expires_at"] = changes["expires_at"]
    return columns


def refuse_loss(session: Session, columns: Mapping[str, Any]) -> None:
    """Refuses to overwrite what a legal hold keeps."""
    kept = ("title", "metadata")
    lost = [name for name in kept if name in columns and columns[name] != getattr(session, name)]
    if session.legal_hold and any(getattr(session, name) for name in lost):
        raise LegalHoldError(
            f"session {session.session_id!r} is under legal hold, so that its "
            f"{' and '.join(lost)} cannot be replaced; release it first",
            [session],
        )
