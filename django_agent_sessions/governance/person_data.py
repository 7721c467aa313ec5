"""What belongs to a person, for an erasure and for an export: by the person's key as an owner."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, QuerySet

from django_agent_sessions.models import (
    AuditEvent,
    MessageFeedback,
    Note,
    Participant,
    Review,
    Session,
    SessionMessage,
    ShareLink,
    StoredObject,
    UsageRollup,
)
from django_agent_sessions.models.querysets import groups_of_keys
from django_agent_sessions.models.users import users

_BATCH = 500
_SHORTEST_NAME = 3


@dataclass(frozen=True)
class PersonData:
    """The rows of a person; ``key`` is the primary key of a user, perhaps a deleted one."""

    using: str
    key: Any

    def user(self) -> Any | None:
        """Return the user's row, if there is one."""
        return users(self.using).filter(pk=self.key).first()

    @property
    def sessions(self) -> Any:
        return Session.objects.using(self.using).filter(owner=self.key)

    @property
    def feedback(self) -> Any:
        return MessageFeedback.objects.using(self.using).filter(user=str(self.key))

    @property
    def written(self) -> QuerySet[SessionMessage]:
        """The messages that the person wrote in sessions of others, and their copies in forks."""
        authored = SessionMessage.objects.using(self.using).authored()
        rows = authored.filter(author=str(self.key))
        written: QuerySet[SessionMessage] = rows.exclude(session__owner=self.key)
        return written

    @property
    def notes(self) -> Any:
        """The notes that the person wrote, in the sessions of others too."""
        return Note.objects.using(self.using).filter(author_id=str(self.key))

    def reviews(self, column: str) -> Any:
        """Return the reviews that have the person's key in a column."""
        return Review.objects.using(self.using).filter(**{column: str(self.key)})

    @property
    def objects(self) -> Any:
        return StoredObject.objects.using(self.using).filter(owner=self.key)

    @property
    def participations(self) -> QuerySet[Participant]:
        """The person's roles in sessions of others."""
        return Participant.objects.using(self.using).filter(user=self.key)

    @property
    def links(self) -> QuerySet[ShareLink]:
        """The share links of the person's sessions."""
        return ShareLink.objects.using(self.using).filter(session__owner=self.key)

    @property
    def usage(self) -> QuerySet[UsageRollup]:
        owned = UsageRollup.Dimension.of_owners()
        return UsageRollup.objects.using(self.using).filter(dimension__in=owned, key=str(self.key))

    @property
    def audit_events(self) -> QuerySet[AuditEvent]:
        """The events of what the person did."""
        return AuditEvent.objects.using(self.using).filter(actor_id=str(self.key))

    def copied_messages(self, fork: UUID) -> QuerySet[SessionMessage]:
        """Return the messages of a fork that are copies, unless another owner has the original."""
        rows = SessionMessage.objects.using(self.using)
        others = rows.filter(pk=OuterRef("source")).exclude(session__owner=self.key)
        copies: QuerySet[SessionMessage] = rows.filter(session=fork, source__isnull=False)
        return copies.filter(~Exists(others))

    def names(self) -> list[str]:
        """Return the person's names, of which each is long enough to be searched for."""
        user, names = self.user(), set()
        if user is not None:
            email = getattr(user, user.get_email_field_name(), "")
            full = user.get_full_name() if hasattr(user, "get_full_name") else ""
            names = {user.get_username(), email, full}
        names |= set(self.audit_events.order_by().values_list("actor", flat=True).distinct())
        return sorted(name for name in names if name and len(name) >= _SHORTEST_NAME)

    def forks(self) -> list[UUID]:
        """Return the forks of the person's sessions, also indirect ones, that others own."""
        own, roots = set(), set()
        for key, root in self.sessions.order_by().values_list("pk", "forked_from"):
            own.add(str(key))
            # All forks of a line have the session that it begins with.
            roots.add(root or key)
        rows = Session.objects.using(self.using).exclude(owner=self.key)
        found: list[UUID] = []
        for batch in groups_of_keys(sorted(roots)):
            for key, origin in each_row(rows.filter(forked_from__in=batch), "origin"):
                if origin and not own.isdisjoint(origin["fork"]["line"]):
                    found.append(key)
        return sorted(found)


def each_row(rows: QuerySet[Any], *columns: str) -> Iterator[tuple[Any, ...]]:
    """Yield the primary key and columns of rows, some at a time, in order of their keys."""
    ordered = rows.order_by("pk").values_list("pk", *columns)
    batch = list(ordered[:_BATCH])
    while batch:
        yield from batch
        batch = list(ordered.filter(pk__gt=batch[-1][0])[:_BATCH])
