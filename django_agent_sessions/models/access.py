"""Which sessions a viewer reaches: the rule of ``AGENT_SESSIONS["ACCESS"]``.

The API and the admin ask :func:`reach_of` for the sessions of other users. Every answer is a
condition of SQL, so that lists, details, searches and streams are decided by the same rule, unless
the rule decides each session by itself.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

from django.db import Error
from django.db.models import BooleanField, Case, Q, QuerySet, Value, When

from django_agent_sessions import conf
from django_agent_sessions.db import bridge
from django_agent_sessions.exceptions import ConfigurationError
from django_agent_sessions.models import Session
from django_agent_sessions.models.permissions import SessionPermission
from django_agent_sessions.values.chosen_classes import load_class
from django_agent_sessions.values.owners import EVERYBODY, Everybody

logger = logging.getLogger(__name__)

S = TypeVar("S", bound=QuerySet[Any])

_failures: ContextVar[list[str] | None] = ContextVar("agent_sessions_rule_failures", default=None)


@contextmanager
def noting_failures() -> Iterator[list[str]]:
    """Collect the names of the rules that fail in this block, which denies access as elsewhere.

    What runs in the background must not take a failure for the answer that nothing matches.
    """
    failures: list[str] = []
    token = _failures.set(failures)
    try:
        yield failures
    finally:
        _failures.reset(token)


class AccessRule:
    """The rule for access to other users' sessions; ``ACCESS`` names a subclass.

    By default, a user with a permission has it in all sessions.
    """

    def sessions(
        self, user: Any, action: SessionPermission
    ) -> Q | QuerySet[Session] | Everybody | None:
        """Return the sessions in which a user may do something.

        Called several times in a request, and repeatedly by a stream. An error denies access and is
        logged, except a database error, which is raised.

        Args:
            user: The user of the request.
            action: What the user wants to do. Most pages need several actions, and show the
                sessions that all of them allow: a conversation needs ``VIEW`` and ``READ``.

        Returns:
            A condition on sessions or a queryset of sessions; ``EVERYBODY`` for all sessions,
            ``None`` for no sessions. An empty ``Q()`` is refused, because a condition that is built
            from an empty list is often one by mistake.
        """
        return EVERYBODY if _has_permission(user, action) else None

    def permits(self, user: Any, action: SessionPermission, session: Session) -> bool | None:
        """Return whether a user may do something in one session.

        Override it for what SQL cannot express. It then decides alone wherever sessions are named
        by their keys, and :meth:`sessions` decides what lists, searches and their actions contain.

        Args:
            user: The user of the request.
            action: What the user wants to do.
            session: The session, perhaps without its metadata.

        Returns:
            ``None``, the default, to ask :meth:`sessions`.
        """
        return None


class ObjectPermissions(AccessRule):
    """A rule for authentication backends that check objects: ``has_perm(name, session)``.

    Django's permissions for all sessions remain valid. A backend checks one session at a time, so
    lists contain what :meth:`listed` returns, which is nothing by default.
    """

    def sessions(
        self, user: Any, action: SessionPermission
    ) -> Q | QuerySet[Session] | Everybody | None:
        granted = super().sessions(user, action)
        return self.listed(user, action) if granted is None else granted

    def listed(
        self, user: Any, action: SessionPermission
    ) -> Q | QuerySet[Session] | Everybody | None:
        """Return the sessions in lists for users who do not have the permission for all of them.

        It must not contain more than the backend permits: the rows of a list are not checked.
        """
        return None

    def permits(self, user: Any, action: SessionPermission, session: Session) -> bool:
        if _has_permission(user, action):
            return True
        return bool(user.has_perm(f"{Session._meta.app_label}.{action}", session))


def _has_permission(user: Any, action: SessionPermission) -> bool:
    return bool(user.has_perms([f"{Session._meta.app_label}.{action}"]))


@dataclass(frozen=True, slots=True)
class SessionReach:
    """The sessions in which a viewer may do something; false if there can be none."""

    condition: Q | None
    """Of lists; empty for all sessions, None for no sessions."""

    permits: Callable[[Session], bool] | None = None
    """What decides for one session, if it is not the condition."""

    def __bool__(self) -> bool:
        return self.condition is not None or self.permits is not None

    @property
    def is_everything(self) -> bool:
        """Whether all sessions are reached."""
        return self.condition == Q()

    def filter(self, sessions: S) -> S:
        """Return those of the sessions that are reached."""
        return sessions.none() if self.condition is None else sessions.filter(self.condition)

    def find(self, few: S) -> S:
        """Return those of a few sessions, which are selected by their keys, that are reached."""
        if self.permits is None:
            return self.filter(few)
        return few.filter(pk__in=self.among(few.defer("metadata", "origin")))

    def among(self, sessions: Iterable[Session]) -> set[Any]:
        """Return the keys of those that are reached; queries only if the rule has a condition."""
        if self.permits is not None:
            return {session.pk for session in sessions if self.permits(session)}
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
    return ViewerRights(viewer).reach(*actions)


class ViewerRights:
    """What a viewer may do; asks the access rule once for each action, so that a page can share it.

    A stream needs a new one for each answer, because permissions may be taken away.
    """

    def __init__(self, viewer: Any) -> None:
        self.viewer = viewer
        self._rule = access_rule(conf.get_settings().ACCESS)
        self._decides_each = self._rule.permits is not AccessRule.permits
        self._conditions: dict[SessionPermission, Q | None] = {}

    def reach(self, *actions: SessionPermission) -> SessionReach:
        """Return the sessions in which the viewer may do all of these."""
        permits, condition = None, Q()
        if self._decides_each and actions:
            permits = functools.partial(_permits, self._rule, self.viewer, actions)
        for action in actions:
            part = self._condition(action)
            if part is None:
                return SessionReach(None, permits)
            condition &= part
        return SessionReach(condition, permits)

    def in_session(
        self, session: Session, actions: Collection[SessionPermission]
    ) -> frozenset[SessionPermission]:
        """Return which of these the viewer may do in a session, by one query at most."""
        if self._decides_each:
            rule, viewer = self._rule, self.viewer
            return frozenset(each for each in actions if _permits(rule, viewer, [each], session))
        found = {each: part for each in actions if (part := self._condition(each)) is not None}
        asked = {f"may_{each}": part for each, part in found.items() if part}
        row: dict[str, bool] = {}
        if asked:
            columns = {name: _is_true(part) for name, part in asked.items()}
            rows = Session.objects.using(bridge.database()).filter(pk=session.pk).order_by()
            row = rows.annotate(**columns).values(*columns).first() or {}
        return frozenset(
            each for each, part in found.items() if not part or row.get(f"may_{each}", False)
        )

    def _condition(self, action: SessionPermission) -> Q | None:
        if action not in self._conditions:
            self._conditions[action] = _condition(self._rule, self.viewer, action)
        return self._conditions[action]


def _is_true(condition: Q) -> Case:
    return Case(
        When(condition, then=Value(True)), default=Value(False), output_field=BooleanField()
    )


def access_rule(path: str | None) -> type[AccessRule]:
    """Import the access rule at a dotted path; None is the default rule."""
    return AccessRule if path is None else load_class("ACCESS", path, AccessRule)


def _permits(
    rule: type[AccessRule], viewer: Any, actions: Iterable[SessionPermission], session: Session
) -> bool:
    """Return whether a rule permits all of these in a session; an error denies it."""
    for action in actions:
        try:
            answer = rule().permits(viewer, action, session)
        except Error:
            raise
        except Exception:  # the project's code: whatever fails must deny
            logger.exception("%s failed and denies %s", rule.__qualname__, action)
            _note_failure(rule)
            return False
        if answer is None:
            listed = _condition(rule, viewer, action)
            answer = listed is not None and SessionReach(listed).includes(session)
        if answer is not True:
            return False
    return True


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
    except Exception:  # the project's code: whatever fails must deny
        logger.exception("%s failed and denies %s", rule.__qualname__, action)
        _note_failure(rule)
        return None
    raise ConfigurationError(
        f"{rule.__qualname__}.sessions returned {type(answer).__name__}{'()' * (answer == Q())}, "
        "not a condition, a queryset of sessions, EVERYBODY or None"
    )


def _note_failure(rule: type[AccessRule]) -> None:
    if (failures := _failures.get()) is not None:
        failures.append(rule.__qualname__)
