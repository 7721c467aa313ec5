"""Querysets of the models: filters by owner, activity and position, and guarded deletion."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator, Mapping, Sequence
from datetime import MAXYEAR, MINYEAR, UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn, Self
from uuid import UUID

from django.db import models, transaction
from django.db.models import (
    BooleanField,
    DateTimeField,
    F,
    Func,
    Min,
    OuterRef,
    Q,
    Subquery,
    UUIDField,
    Value,
)
from django.utils import timezone

from django_agent_sessions.content import codec
from django_agent_sessions.exceptions import AuditError, EncryptedSearchError
from django_agent_sessions.models import deletion, removal
from django_agent_sessions.models.functions import value_is, value_of
from django_agent_sessions.models.last_message import last_message_columns
from django_agent_sessions.models.lifetimes import Lifetimes
from django_agent_sessions.models.titles import opening_words
from django_agent_sessions.values.ids import SessionKey
from django_agent_sessions.values.owners import reached

if TYPE_CHECKING:
    from django_agent_sessions import models as tables


ACTIVITY_INTERVAL = timedelta(seconds=5)
"""How old a session's last activity is before an append moves it.

Four indexes contain it: while it stays, an append writes three fifths as much into the log of the
database.
"""

_LAST_CHARACTER = "\U0010ffff"
_MAIN_BRANCH = 0
_MAX_AGENTS = 100
_MAX_KEYS = 500


def groups_of_keys(keys: Sequence[UUID]) -> Iterator[Sequence[UUID]]:
    """Yield the keys in groups, because databases limit the parameters of a statement."""
    for start in range(0, len(keys), _MAX_KEYS):
        yield keys[start : start + _MAX_KEYS]


def is_valid_in_all_time_zones(moment: datetime) -> bool:
    """Return whether a time is a valid date in every time zone."""
    try:
        year = (moment if timezone.is_naive(moment) else moment.astimezone(UTC)).year
    except OverflowError:
        return False
    return MINYEAR < year < MAXYEAR


def begins_with(name: str, prefix: str) -> Q:
    """Return a condition on the prefix of an id, which uses its index on every database."""
    return Q(**{f"{name}__gte": prefix, f"{name}__lte": prefix + _LAST_CHARACTER})


def key_condition(key: SessionKey, prefix: str = "") -> Q:
    """Return the condition for a session, or for rows that belong to one (``"session__"``)."""
    return Q(**{f"{prefix}{name}": value for name, value in key._asdict().items()})


class SessionQuerySet(models.QuerySet["tables.Session"]):
    """Sessions."""

    def delete(self) -> tuple[int, dict[str, int]]:
        """Delete the sessions and everything that belongs to them.

        Outside a transaction they are deleted in batches, each session completely: see
        :mod:`django_agent_sessions.models.deletion`.

        Raises:
            LegalHoldError: A session is under legal hold; nothing was deleted. Outside a
                transaction, a session that is put under legal hold meanwhile can raise it after
                others were deleted.
        """
        removal.check_removable(self.order_by() if not self.query.is_sliced else self)
        # Let Django raise its own error for querysets that it cannot delete.
        deletable = not (self.query.is_sliced or self.query.distinct or self.query.combinator)
        if not deletable or self._fields is not None:  # type: ignore[attr-defined] # as Django checks it
            return super().delete()
        if deletion.can_commit_batches(self.db):
            return deletion.delete_sessions(self)
        return models.QuerySet.delete(self.defer(*deletion.ENCRYPTED))

    delete.alters_data = True  # type: ignore[attr-defined] # read by Django
    delete.queryset_only = True  # type: ignore[attr-defined] # read by Django

    def filter_key(self, key: SessionKey) -> Self:
        """Filter by namespace, scope and session id; at most one session matches."""
        return self.filter(key_condition(key))

    def owned_by(self, owner: Any) -> Self:
        """Filter by owner.

        Args:
            owner: A user, or a user's primary key; ``NOBODY`` for sessions without an owner;
                ``EVERYBODY`` for all sessions. ``None``, a bool and an anonymous user match
                nothing.
        """
        if owner is None or isinstance(owner, bool) or not getattr(owner, "is_authenticated", True):
            return self.none()
        return self.filter(reached(owner))

    def metadata(self, **values: Any) -> Self:
        """Filter by values of the metadata, of the same type: ``metadata(team="blue")``.

        Raises:
            EncryptedSearchError: Metadata is encrypted.
            ValueError: A key contains a quotation mark or a backslash, which no path can have.
        """
        rows = self
        if codec.hides_metadata():
            raise EncryptedSearchError("metadata is encrypted, so it cannot be filtered")
        for key, value in values.items():
            if '"' in key or "\\" in key:
                raise ValueError("metadata() takes no key with a quotation mark or a backslash")
            name = f"metadata_value_{len(rows.query.annotations)}"
            rows = rows.alias(**{name: value_of(key, "metadata")})
            rows = rows.filter(value_is(name, key, "metadata", value))
        return rows

    def with_last_message(self) -> Self:
        """Add the last message of each session, in the same statement.

        The sessions have the attributes ``last_message_text`` (its first 500 characters),
        ``last_message_role`` and ``last_message_at``, which are None in a session without messages.
        The message may be of any agent of the session. Redacted text is redacted here, too.
        """
        return self.annotate(**last_message_columns())

    def with_display_title(self) -> Self:
        """Read with the sessions what ``display_title`` needs, in the same statement."""
        return self.annotate(opening_words=opening_words())

    def older_than(self, age: timedelta | datetime) -> Self:
        """Filter the sessions whose last activity is older: ``older_than(timedelta(days=30))``.

        Args:
            age: The minimum time since the last activity, or the time before which it was.

        Raises:
            ValueError: The age is negative, which would match sessions that are in use.
        """
        if isinstance(age, timedelta):
            if age < timedelta():
                raise ValueError(f"older_than() takes a positive timedelta, not {age}")
            age = timezone.now() - age
        elif not isinstance(age, datetime):
            raise TypeError(
                f"older_than() takes a timedelta or a datetime, not {type(age).__name__}"
            )
        return self.filter(last_activity_at__lt=age)

    def active_since(self, moment: datetime) -> Self:
        """Filter by activity at a time or later.

        Leaves out no session with a later message, although an append moves ``last_activity_at``
        at most once in five seconds: a session may be found that was active up to as much earlier.
        """
        return self.filter(last_activity_at__gte=moment - ACTIVITY_INTERVAL)

    def not_held(self) -> Self:
        """Exclude sessions under legal hold, which cannot be deleted."""
        return self.filter(removal.REMOVABLE)

    def with_errors(self) -> Self:
        """Filter the sessions with a message that reports an error, such as a failed tool.

        ``error_count`` is the number of these messages.
        """
        # Not `=True`, for which SQLite would not use the index.
        return self.filter(has_errors=Value(True))

    def active(self) -> Self:
        """Exclude archived and expired sessions."""
        return self.filter(
            Q(expires_at__isnull=True) | Q(expires_at__gt=timezone.now()),
            archived_at__isnull=True,
        )

    def due(self, now: datetime | None = None, lifetimes: Lifetimes | None = None) -> Self:
        """Filter the sessions that ``manage.py agent_sessions_prune`` deletes.

        Args:
            now: The time of the decision; by default the current one.
            lifetimes: By default those of ``AGENT_SESSIONS["RETENTION"]``.
        """
        condition = (lifetimes or Lifetimes.from_settings()).due(now or timezone.now())
        rows = self.filter(condition).not_held()
        return rows.exclude(namespace=deletion.TOMBSTONE_NAMESPACE)

    def namespaces(self) -> Iterator[str]:
        """Yield the namespaces of the sessions, each with one index seek."""
        rows: Any = self.order_by()
        name = rows.aggregate(least=Min("namespace"))["least"]
        while name is not None:
            yield name
            name = rows.filter(namespace__gt=name).aggregate(least=Min("namespace"))["least"]

    def recent_first(self) -> Self:
        """Order by last activity, newest first, as an index does."""
        return self.order_by("-last_activity_at", "-id")

    def less_recent_than(self, moment: datetime, key: UUID) -> Self:
        """Filter the sessions after a session in the order of :meth:`recent_first`.

        Args:
            moment: The session's last activity.
            key: Its primary key.
        """
        return self.filter(Q(last_activity_at__lte=moment) & Q(_compare_row("<", moment, key)))

    def more_recent_than(self, moment: datetime, key: UUID) -> Self:
        """Filter the sessions before a session in the order of :meth:`recent_first`.

        Args:
            moment: The session's last activity.
            key: Its primary key.
        """
        return self.after("last_activity_at", moment, key)

    def after(self, column: str, moment: datetime, key: UUID) -> Self:
        """Filter the sessions after a session in the ascending order of a time and the key."""
        later = Q(_compare_row(">", moment, key, column))
        return self.filter(Q(**{f"{column}__gte": moment}) & later)


def _compare_row(
    operator: str, moment: datetime, key: UUID, column: str = "last_activity_at"
) -> Func:
    """Compare both columns of the order as a row value, which the index supports."""
    values = (Value(moment, output_field=DateTimeField()), Value(key, output_field=UUIDField()))
    return Func(
        Func(F(column), F("id"), template="(%(expressions)s)"),
        Func(*values, template="(%(expressions)s)"),
        template="%(expressions)s",
        arg_joiner=f" {operator} ",
        output_field=BooleanField(),
    )


# Django reads whole rows before it deletes them where a receiver of pre_delete listens: the states
# of agents are large, and their data key may have been destroyed.
class AgentQuerySet(models.QuerySet["tables.SessionAgent"]):
    """Agents."""

    def delete(self) -> tuple[int, dict[str, int]]:
        """Delete the agents with their messages, unless a session is under legal hold.

        Raises:
            LegalHoldError: A session is under legal hold; nothing was deleted.
        """
        if self.query.is_sliced:
            return super().delete()  # Django raises its own error.
        with transaction.atomic(self.db):
            removal.lock_sessions_of(self)
            return super().delete()

    delete.alters_data = True  # type: ignore[attr-defined] # read by Django
    delete.queryset_only = True  # type: ignore[attr-defined] # read by Django


class MessageQuerySet(models.QuerySet["tables.SessionMessage"]):
    """Messages."""

    def authored(self) -> Self:
        """Filter the messages that a user other than the session's owner wrote, by their index."""
        return self.filter(author__gt="")

    def delete(self) -> tuple[int, dict[str, int]]:
        """Delete the messages, unless a session is under legal hold; streams of events tell it.

        Raises:
            LegalHoldError: A session is under legal hold; nothing was deleted.
        """
        if self.query.is_sliced:
            return super().delete()  # Django raises its own error.
        with transaction.atomic(self.db):
            locked: list[tables.Session] = removal.lock_sessions_of(self)
            first_deleted = self._first_positions()
            deleted = deletion.delete_message_rows(self)
            if deleted[0]:
                sessions = type(locked[0])._base_manager.using(self.db)
                keys = [session.pk for session in locked]
                sessions.filter(pk__in=keys).update(change=F("change") + 1)
                self.mark_moved(first_deleted)
            return deleted

    def _first_positions(self) -> dict[UUID, int]:
        """Return the first of these positions on each agent's main branch."""
        rows = self.model._base_manager.using(self.db).filter(branch=_MAIN_BRANCH).order_by()
        deleted: Any = rows.filter(pk__in=self.order_by().values("pk")).values("agent")
        return dict(deleted.annotate(first=Min("message_id")).values_list("agent", "first"))

    delete.alters_data = True  # type: ignore[attr-defined] # read by Django
    delete.queryset_only = True  # type: ignore[attr-defined] # read by Django

    def conversation(self, agent: Any, branch: int = 0) -> Self:
        """Filter by agent and branch, in order of positions.

        Args:
            agent: The agent, or its primary key.
            branch: Number of the branch; 0 is the main branch.
        """
        return self.filter(agent=agent, branch=branch).order_by("message_id")

    def mark_moved(self, after: Mapping[UUID, int]) -> None:
        """Write that the messages after these positions got them with their session's change.

        A stream of events then removes the ones from the position on, and sends the others again.
        """
        rows = self.model._base_manager.using(self.db).filter(branch=_MAIN_BRANCH)
        sessions: Any = self.model._meta.get_field("session").related_model
        current = sessions._base_manager.filter(pk=OuterRef("session")).values("change")
        places = list(after.items())
        for start in range(0, len(places), _MAX_AGENTS):
            batch = places[start : start + _MAX_AGENTS]
            later = [Q(agent=agent, message_id__gt=position) for agent, position in batch]
            moved = rows.filter(functools.reduce(operator.or_, later))
            moved.update(change=Subquery(current))


class AuditQuerySet(models.QuerySet["tables.AuditEvent"]):
    """Audit events, which can only be added."""

    def update(self, **kwargs: Any) -> NoReturn:
        raise AuditError("audit events cannot be changed")

    def delete(self) -> NoReturn:
        raise AuditError("audit events cannot be deleted; see manage.py agent_sessions_purge_audit")

    def bulk_update(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise AuditError("audit events cannot be changed")

    def bulk_create(self, objs: Any, *args: Any, **kwargs: Any) -> Any:
        """Insert events; updating existing ones raises AuditError."""
        if kwargs.get("update_conflicts") or len(args) > 2:
            raise AuditError("audit events cannot be changed")
        return super().bulk_create(objs, *args, **kwargs)

    def of_session(self, session: Any) -> Self:
        """Filter by session, newest first.

        Args:
            session: Primary key of the session.
        """
        return self.filter(session=session).order_by("-id")

    def deletions_of(self, session: Any) -> Self:
        """Filter the events that record the deletion of a session, alone or with others.

        Args:
            session: Primary key of the session.
        """
        # A run of retention writes one event for the sessions of a transaction.
        with_others = Q(session__isnull=True, details__icontains=str(session))
        return self.filter(Q(session=session) | with_others, action="deleted").order_by("-id")
