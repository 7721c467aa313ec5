"""Which sessions a viewer reaches: the rule of ``AGENT_SESSIONS["ACCESS"]``.

The API and the admin ask :func:`reach_of` for the sessions of other users. Every answer is a
condition of SQL, so that lists, details, searches and streams are decided by the same rule.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from django.db import Error
from django.db.models import Func, Q, QuerySet, Value
from django.utils.module_loading import import_string

from django_agent_sessions import conf
from django_agent_sessions.db import bridge
from django_agent_sessions.exceptions import ConfigurationError
from django_agent_sessions.models import Session
from django_agent_sessions.models.permissions import SessionPermission, has_permissions
from django_agent_sessions.values.owners import EVERYBODY, Everybody, reached

logger = logging.getLogger(__name__)

S = TypeVar("S", bound=QuerySet[Any])


class AccessRule:
    """The rule for the sessions of other users; a subclass is named by ``ACCESS``.

    By default, a user with a permission has it in all sessions.
    """

    def sessions(
        self, user: Any, action: SessionPermission
    ) -> Q | QuerySet[Session] | Everybody | None:
        """Return the sessions in which a user may do something.

        Called often in a request, and again and again by a stream. An error denies access and is
        logged, except a database error, which is raised.

        Args:
            user: The user of the request.
            action: What the user wants to do. Most pages need several actions, and show the
                sessions of all of them: a conversation needs ``VIEW`` and ``READ``.

        Returns:
            A condition on sessions or a queryset of sessions; ``EVERYBODY`` for all sessions,
            ``None`` for no sessions. An empty ``Q()`` is refused, because a condition that is built
            from an empty list is often one by mistake.
        """
        return EVERYBODY if has_permissions(user, action) else None


@dataclass(frozen=True, slots=True)
class SessionReach:
    """The sessions in which a viewer may do something; false if there can be none."""

    condition: Q | None
    """Empty for all sessions, None for no sessions."""

    def __bool__(self) -> bool:
        return self.condition is not None

    @property
    def is_everything(self) -> bool:
        """Whether all sessions are reached."""
        return self.condition == Q()

    def filter(self, sessions: S) -> S:
        """Return those of the sessions that are reached."""
        return sessions.none() if self.condition is None else sessions.filter(self.condition)

    def among(self, sessions: Iterable[Session]) -> set[Any]:
        """Return the keys of those that are reached; queries only if the rule has a condition."""
        keys = {session.pk for session in sessions}
        if not self.condition:
            return keys if self else set()
        rows = Session.objects.using(bridge.database()).filter(self.condition, pk__in=keys)
        return set(rows.values_list("pk", flat=True))

    def includes(self, session: Session) -> bool:
        """Return whether a session is reached."""
        return session.pk in self.among([session])


def reach_of(viewer: Any, *actions: SessionPermission) -> SessionReach:
    """Return the sessions in which a viewer may do all of these.

    Raises ``ConfigurationError`` if ``ACCESS`` is not an access rule or returns something else.
    """
    rule, condition = access_rule(conf.get_settings().ACCESS), Q()
    for action in actions:
        part = _condition(rule, viewer, action)
        if part is None:
            return SessionReach(None)
        condition &= part
    return SessionReach(condition)


@functools.cache
def access_rule(path: str | None) -> type[AccessRule]:
    """Import the access rule at a dotted path; None is the default rule."""
    if path is None:
        return AccessRule
    try:
        rule = import_string(path)
    except Exception as error:
        raise ConfigurationError(
            f"AGENT_SESSIONS['ACCESS'] is {path!r}, which cannot be imported: {error}"
        ) from error
    if not (isinstance(rule, type) and issubclass(rule, AccessRule)):
        raise ConfigurationError(
            f"AGENT_SESSIONS['ACCESS'] is {path!r}, which is not a subclass of AccessRule"
        )
    return rule


def _condition(rule: type[AccessRule], viewer: Any, action: SessionPermission) -> Q | None:
    """Return the rule's condition; an empty one for all sessions, None for no sessions."""
    try:
        answer: Any = rule().sessions(viewer, action)
        if answer is None or answer is EVERYBODY:
            return None if answer is None else Q()
        if isinstance(answer, Q) and answer:
            rows = Session.objects.filter(answer)
            # A join may repeat a row.
            return Q(pk__in=rows.values("pk")) if len(rows.query.alias_map) > 1 else answer
        if isinstance(answer, QuerySet) and answer.model is Session:
            return Q(pk__in=answer.order_by().values("pk"))
    except Error:
        # The request fails and can be repeated; the user has not lost a right.
        raise
    except Exception:
        logger.exception("%s failed and denies %s", rule.__qualname__, action)
        return None
    raise ConfigurationError(
        f"{rule.__qualname__}.sessions returned {type(answer).__name__}{'()' * (answer == Q())}, "
        "not a condition, a queryset of sessions, EVERYBODY or None"
    )


def owned_by_viewer(viewer: Any) -> Q:
    """Return the condition for a viewer's own sessions; nothing matches for an anonymous one.

    The key is in a subquery, so that PostgreSQL does not plan with its statistics. For a user with
    many sessions it would expect to find enough of them among the most recent sessions of all
    users, and scan all of those if it does not.
    """
    if viewer.pk is None:
        return Q(pk__in=[])
    key = Value(viewer.pk, output_field=_owner_column())
    return reached(Func(key, template="(SELECT %(expressions)s)"))


def owns(viewer: Any, session: Session) -> bool:
    """Return whether a viewer owns a session; reads by the owner are not recorded."""
    if session.owner_id is None or viewer.pk is None:
        return False
    # A user that a token describes has no row, and its key may be text.
    return bool(_owner_column().to_python(viewer.pk) == session.owner_id)


def _owner_column() -> Any:
    column: Any = Session._meta.get_field("owner")
    return column.target_field
