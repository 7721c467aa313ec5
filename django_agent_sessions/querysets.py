"""How rows are found: by owner, by activity, by position."""

from __future__ import annotations

from datetime import MAXYEAR, MINYEAR, UTC, datetime
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar
from uuid import UUID

from django.db import models, transaction
from django.db.models import (
    BooleanField,
    DateTimeField,
    F,
    Func,
    Q,
    TextField,
    UUIDField,
    Value,
)
from django.db.models.functions import Coalesce
from django.utils import timezone

from . import batches
from .exceptions import AuditError, LegalHoldError
from .owners import reached

if TYPE_CHECKING:
    from . import models as tables


M = TypeVar("M", bound=models.Model)

CONTENT_TEXT = Coalesce("redact_message", "message", output_field=TextField())
"""What may be shown of a message, as the stored text: decoding it takes half as long again."""

_BEHIND_ALL = "\U0010ffff"


def is_in_any_calendar(moment: datetime) -> bool:
    """Tells whether a moment has a date in every time zone, whichever a database is asked in.

    Args:
        moment: What rows are to be found by.

    Returns:
        Whether no database refuses it.
    """
    try:
        year = (moment if timezone.is_naive(moment) else moment.astimezone(UTC)).year
    except OverflowError:
        return False
    return MINYEAR < year < MAXYEAR


def begins_with(name: str, prefix: str) -> Q:
    """Makes the condition that an id begins so, which an index of it answers on every vendor.

    Args:
        name: The name of the field, whose collation compares exactly.
        prefix: How the id begins.

    Returns:
        The condition.
    """
    return Q(**{f"{name}__gte": prefix, f"{name}__lte": prefix + _BEHIND_ALL})


def refuse_held(sessions: models.QuerySet[tables.Session]) -> None:
    """Refuses to go on if any of these sessions is under legal hold.

    Before a deletion begins, because a refusal in the middle of one would leave the caller's
    transaction unusable.

    Args:
        sessions: Whose rows are to be deleted.

    Raises:
        LegalHoldError: One is; it names them.
    """
    if held := list(sessions.filter(legal_hold=True)[:100]):
        names = ", ".join(repr(session.session_id) for session in held[:5])
        raise LegalHoldError(f"session {names} is under legal hold; release it first", held)


class SessionQuerySet(models.QuerySet["tables.Session"]):
    """Sessions."""

    def delete(self) -> tuple[int, dict[str, int]]:
        """Deletes the sessions with all that belongs to them, unless one is under legal hold.

        Outside a transaction they go some at a time, each whole: see
        :mod:`django_agent_sessions.batches`.

        Raises:
            LegalHoldError: One is; nothing was deleted. Outside a transaction one may be put
                under hold meanwhile, when others are gone.
        """
        refuse_held(self.order_by() if not self.query.is_sliced else self)
        # What Django refuses to delete, it refuses.
        plain = not (self.query.is_sliced or self.query.distinct or self.query.combinator)
        if plain and self._fields is None and batches.are_possible(self.db):  # type: ignore[attr-defined] # Django's own look at it
            return batches.delete(self)
        return super().delete()

    delete.alters_data = True  # type: ignore[attr-defined] # Django looks for it
    delete.queryset_only = True  # type: ignore[attr-defined] # and for this

    def named(self, namespace: str, session_id: str) -> Self:
        """Finds the one session of this name in this namespace."""
        return self.filter(namespace=namespace, session_id=session_id)

    def owned_by(self, owner: Any) -> Self:
        """Keeps what this user owns.

        Args:
            owner: A user, or a user's primary key; ``NOBODY`` for sessions without an owner, or
                ``EVERYBODY`` for all. ``None`` and an anonymous user own nothing.
        """
        if owner is None or not getattr(owner, "is_authenticated", True):
            return self.none()
        return self.filter(reached(owner))

    def active(self) -> Self:
        """Keeps what is neither archived nor expired."""
        return self.filter(
            Q(expires_at__isnull=True) | Q(expires_at__gt=timezone.now()),
            archived_at__isnull=True,
        )

    def recent_first(self) -> Self:
        """Orders by the last activity, newest first; an index matches it."""
        return self.order_by("-last_activity_at", "-id")

    def less_recent_than(self, moment: datetime, key: UUID) -> Self:
        """Keeps what follows a session in the order of :meth:`recent_first`.

        Args:
            moment: The session's last activity.
            key: Its primary key.
        """
        return self.filter(Q(last_activity_at__lte=moment) & Q(_place("<", moment, key)))

    def more_recent_than(self, moment: datetime, key: UUID) -> Self:
        """Keeps what precedes a session in the order of :meth:`recent_first`.

        Args:
            moment: The session's last activity.
            key: Its primary key.
        """
        return self.filter(Q(last_activity_at__gte=moment) & Q(_place(">", moment, key)))


def _place(operator: str, moment: datetime, key: UUID) -> Func:
    """Compares both columns of the order at once, as the index holds them."""
    place = (Value(moment, output_field=DateTimeField()), Value(key, output_field=UUIDField()))
    return Func(
        Func(F("last_activity_at"), F("id"), template="(%(expressions)s)"),
        Func(*place, template="(%(expressions)s)"),
        template="%(expressions)s",
        arg_joiner=f" {operator} ",
        output_field=BooleanField(),
    )


class RowQuerySet(models.QuerySet[M]):
    """What belongs to sessions."""

    def delete(self) -> tuple[int, dict[str, int]]:
        """Deletes the rows, unless the session of one is under legal hold.

        Raises:
            LegalHoldError: One is; nothing was deleted.
        """
        if self.query.is_sliced:
            return super().delete()  # Django says why that cannot be.
        sessions: Any = self.model._meta.get_field("session").related_model
        with transaction.atomic(self.db):
            # The sessions' rows first: nobody puts one under hold in between.
            owning = sessions._base_manager.using(self.db).filter(
                pk__in=self.order_by().values("session")
            )
            if held := [row for row in owning.select_for_update() if row.legal_hold]:
                raise LegalHoldError(
                    f"session {held[0].session_id!r} is under legal hold; release it first", held
                )
            return super().delete()

    delete.alters_data = True  # type: ignore[attr-defined] # Django looks for it
    delete.queryset_only = True  # type: ignore[attr-defined] # and for this


class MessageQuerySet(RowQuerySet["tables.SessionMessage"]):
    """Messages."""

    def conversation(self, agent: Any, branch: int = 0) -> Self:
        """Keeps one agent's conversation, in order.

        Args:
            agent: The agent, or its primary key.
            branch: 0 is the main branch.
        """
        return self.filter(agent=agent, branch=branch).order_by("message_id")


class AuditQuerySet(models.QuerySet["tables.AuditEvent"]):
    """Audit events, which are only ever added."""

    def update(self, **kwargs: Any) -> NoReturn:
        """Refuses.

        Raises:
            AuditError: Always.
        """
        raise AuditError("audit events cannot be changed")

    def delete(self) -> NoReturn:
        """Refuses.

        Raises:
            AuditError: Always; old events are purged with ``manage.py purge_audit_events``.
        """
        raise AuditError("audit events cannot be deleted; see manage.py purge_audit_events")

    def bulk_update(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuses.

        Raises:
            AuditError: Always.
        """
        raise AuditError("audit events cannot be changed")

    def bulk_create(self, objs: Any, *args: Any, **kwargs: Any) -> Any:
        """Adds events.

        Raises:
            AuditError: Some that are there already would be updated.
        """
        if kwargs.get("update_conflicts") or len(args) > 2:
            raise AuditError("audit events cannot be changed")
        return super().bulk_create(objs, *args, **kwargs)

    def of_session(self, session: Any) -> Self:
        """Keeps what speaks of this session, newest first.

        Args:
            session: Primary key of the session.
        """
        return self.filter(session=session).order_by("-id")
