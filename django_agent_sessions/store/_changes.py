"""The columns of a session that a caller may update."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypedDict

from django.utils import timezone

from django_agent_sessions.exceptions import LegalHoldError
from django_agent_sessions.models import Session

from ._mask_on_write import prepare_metadata, prepare_title


class SessionChanges(TypedDict, total=False):
    """Arguments of :meth:`Sessions.update`; absent keys keep their values."""

    title: str
    metadata: Mapping[str, Any]
    archived: bool
    expires_at: datetime | None


def session_updates(changes: SessionChanges, using: str) -> dict[str, Any]:
    """Validate changes, and return the new values by column."""
    columns: dict[str, Any] = {}
    if "title" in changes:
        columns["title"] = prepare_title(changes["title"])
    if "metadata" in changes:
        columns["metadata"] = prepare_metadata(changes["metadata"], using)
    if "archived" in changes:
        columns["archived_at"] = timezone.now() if changes["archived"] else None
    if "expires_at" in changes:
        columns["expires_at"] = changes["expires_at"]
    return columns


def check_change_of_held_session(session: Session, columns: Mapping[str, Any]) -> None:
    """Raise if an update would replace a title or metadata under legal hold."""
    protected = ("title", "metadata")
    lost = [
        name for name in protected if name in columns and columns[name] != getattr(session, name)
    ]
    if session.legal_hold and any(getattr(session, name) for name in lost):
        raise LegalHoldError(
            f"session {session.session_id!r} is under legal hold; release it before replacing its "
            f"{' and '.join(lost)}",
            [session],
        )
