"""How rows are found: by owner, by activity, by position."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from django.db import models
from django.db.models import Q
from django.utils import timezone

if TYPE_CHECKING:
    from . import models as tables  # noqa: F401 - the querysets' own rows


class SessionQuerySet(models.QuerySet["tables.Session"]):
    """Sessions."""

    def named(self, namespace: str, session_id: str) -> Self:
        """Finds the one session of this name in this namespace."""
        return self.filter(namespace=namespace, session_id=session_id)

    def owned_by(self, owner: Any) -> Self:
        """Keeps what this user owns.

        Args:
            owner: A user, or a user's primary key. ``None`` is nobody, who owns nothing.
        """
        return self.none() if owner is None else self.filter(owner=owner)

    def active(self) -> Self:
        """Keeps what is neither archived nor expired."""
        return self.filter(
            Q(expires_at__isnull=True) | Q(expires_at__gt=timezone.now()),
            archived_at__isnull=True,
        )

    def recent_first(self) -> Self:
        """Orders by the last activity, newest first; an index matches it."""
        return self.order_by("-last_activity_at", "-id")


class MessageQuerySet(models.QuerySet["tables.SessionMessage"]):
    """Messages."""

    def conversation(self, agent: Any, branch: int = 0) -> Self:
        """Keeps one agent's conversation, in order.

        Args:
            agent: The agent, or its primary key.
            branch: 0 is the main branch.
        """
        return self.filter(agent=agent, branch=branch).order_by("message_id")
