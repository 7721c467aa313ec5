"""How long sessions are kept: their own ``expires_at``, or else ``AGENT_SESSIONS["RETENTION"]``.

The rule is here twice, as a condition of the database (:meth:`Lifetimes.due`) and for one session
in memory (:meth:`Lifetimes.date_of`); tests compare them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Self

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from django_agent_sessions import conf
from django_agent_sessions.exceptions import ConfigurationError, InvalidIdError
from django_agent_sessions.models.removal import may_remove
from django_agent_sessions.values.ids import validate_namespace

if TYPE_CHECKING:
    from django_agent_sessions.models import Session

MAX_LIFETIME = timedelta(days=365_000)
"""The longest lifetime. A longer one would begin before the first date that Python has."""

OTHER_NAMESPACES = "*"
"""The key of the namespaces that ``RETENTION`` does not name."""

_NAME = 'AGENT_SESSIONS["RETENTION"]'
_KEYS = ("SESSIONS", "AUDIT_EVENTS", "USAGE")


class Rule(models.TextChoices):
    """Why a session is deleted."""

    EXPIRES = "expires", _("its own expiry date")
    AGE = "age", _("time since it was created")
    IDLE = "idle", _("time since the last activity")
    ARCHIVED = "archived", _("time since it was archived")

    @property
    def column(self) -> str:
        """The column of the session that the rule reads."""
        return _COLUMNS[self]


_COLUMNS: dict[str, str] = {
    Rule.EXPIRES: "expires_at",
    Rule.AGE: "created_at",
    Rule.IDLE: "last_activity_at",
    Rule.ARCHIVED: "archived_at",
}
_LIFETIMES = (Rule.AGE, Rule.IDLE, Rule.ARCHIVED)


@dataclass(frozen=True, slots=True)
class DeletionDate:
    """When a session may be deleted, and why."""

    at: datetime
    rule: Rule
    lifetime: timedelta | None = None
    """None for a session with a date of its own."""


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """The lifetimes of sessions by namespace, and those of audit events and of usage."""

    by_namespace: Mapping[str, Mapping[Rule, timedelta]]
    audit_events: timedelta | None = None
    usage: timedelta | None = None

    @classmethod
    def from_settings(cls) -> Self:
        """Return those of ``AGENT_SESSIONS["RETENTION"]``.

        Raises ``ConfigurationError`` if the setting is invalid, so that nothing is deleted by half
        of a rule.
        """
        given = conf.get_settings().RETENTION
        if not isinstance(given, Mapping):
            raise ConfigurationError(f"{_NAME} must be a dict")
        if unknown := [key for key in given if key not in _KEYS]:
            raise ConfigurationError(
                f"{_NAME} has no key {unknown[0]!r}: the keys are {', '.join(_KEYS)}"
            )
        sessions = given.get("SESSIONS") or {}
        if not isinstance(sessions, Mapping):
            raise ConfigurationError(f'{_NAME}["SESSIONS"] must be a dict of namespaces')
        return cls(
            {_namespace(name): _rules(name, rules) for name, rules in sessions.items()},
            _optional(given, "AUDIT_EVENTS"),
            _optional(given, "USAGE"),
        )

    def with_idle(self, lifetime: timedelta, namespace: str | None = None) -> Lifetimes:
        """Replace the lifetimes of a namespace by one since the last activity.

        Without a namespace, those of all that have no lifetimes of their own.
        """
        rules = {Rule.IDLE: _valid(lifetime, "the time since the last activity")}
        key = OTHER_NAMESPACES if namespace is None else namespace
        return Lifetimes({**self.by_namespace, key: rules})

    def of(self, namespace: str) -> Mapping[Rule, timedelta]:
        """Return the lifetimes of the sessions of a namespace."""
        # A namespace that is called "*" is one of the others.
        return self.by_namespace.get(namespace, self.by_namespace.get(OTHER_NAMESPACES, {}))

    @property
    def named(self) -> list[str]:
        """The namespaces with lifetimes of their own."""
        return sorted(name for name in self.by_namespace if name != OTHER_NAMESPACES)

    def date_of(self, session: Session) -> DeletionDate | None:
        """Return the first date on which the session may be deleted; None if there is none.

        A legal hold is not considered.
        """
        if session.expires_at is not None:
            return DeletionDate(session.expires_at, Rule.EXPIRES)
        dates = []
        for rule, lifetime in self.of(session.namespace).items():
            start: datetime | None = getattr(session, rule.column)
            if start is not None and start <= datetime.max.replace(tzinfo=start.tzinfo) - lifetime:
                dates.append(DeletionDate(start + lifetime, rule, lifetime))
        return min(dates, key=lambda date: date.at, default=None)

    def due(self, now: datetime) -> Q:
        """Return the condition for sessions whose date is over; a legal hold is not considered."""
        own = Q(expires_at__lte=now)
        named = [Q(namespace=name) & self._over(name, now) for name in self.named]
        others = ~Q(namespace__in=self.named) & self._over(OTHER_NAMESPACES, now)
        over = others
        for condition in named:
            over |= condition
        return own | (Q(expires_at__isnull=True) & over)

    def due_by(self, rule: Rule, namespace: str, now: datetime) -> Q:
        """Return the condition for the sessions of a namespace that are due by this lifetime.

        Each session is due by one rule only, the first of several in the order of ``Rule``. The
        condition is a range of the index of the namespace and the rule's column.
        """
        lifetimes = self.of(namespace)
        earlier = [other for other in _LIFETIMES if other in lifetimes]
        condition = Q(namespace=namespace, expires_at__isnull=True) & _passed(
            rule, lifetimes[rule], now
        )
        for other in earlier[: earlier.index(rule)]:
            condition &= ~_passed(other, lifetimes[other], now)
        return condition

    def _over(self, namespace: str, now: datetime) -> Q:
        over = Q(pk__in=())
        for rule, lifetime in self.of(namespace).items():
            over |= _passed(rule, lifetime, now)
        return over


def deletion_date(session: Session) -> DeletionDate | None:
    """Return when ``prune`` may delete a session, and by which rule.

    Returns None if it is under legal hold, or if neither ``expires_at`` nor
    ``AGENT_SESSIONS["RETENTION"]`` limits its life.
    """
    return Lifetimes.from_settings().date_of(session) if may_remove(session) else None


def _passed(rule: Rule, lifetime: timedelta, now: datetime) -> Q:
    return Q(**{f"{rule.column}__lte": now - lifetime})


def _namespace(name: object) -> str:
    if not isinstance(name, str):
        raise ConfigurationError(
            f'{_NAME}["SESSIONS"] has a key of type {type(name).__name__}: use a namespace, '
            f"or {OTHER_NAMESPACES!r} for all others"
        )
    try:
        return validate_namespace(name)
    except InvalidIdError as error:
        raise ConfigurationError(f'{_NAME}["SESSIONS"]: {error}') from error


def _rules(name: str, given: object) -> dict[Rule, timedelta]:
    where = f'{_NAME}["SESSIONS"][{name!r}]'
    names = {rule.name: rule for rule in _LIFETIMES}
    if not isinstance(given, Mapping):
        raise ConfigurationError(
            f"{where} must be a dict with {', '.join(names)}; an empty one keeps the sessions"
        )
    if unknown := [key for key in given if key not in names]:
        raise ConfigurationError(
            f"{where} has no key {unknown[0]!r}: the keys are {', '.join(names)}"
        )
    lifetimes = {key: value for key, value in given.items() if value is not None}
    # In the order of the rules, whatever the order in the settings.
    return {
        rule: _valid(lifetimes[name], f"{where}[{name!r}]")
        for name, rule in names.items()
        if name in lifetimes
    }


def _optional(given: Mapping[str, Any], key: str) -> timedelta | None:
    value = given.get(key)
    return None if value is None else _valid(value, f'{_NAME}["{key}"]')


def _valid(value: object, where: str) -> timedelta:
    if not isinstance(value, timedelta):
        raise ConfigurationError(
            f"{where} is of type {type(value).__name__}: use a timedelta, such as "
            "timedelta(days=90)"
        )
    if not timedelta(0) < value <= MAX_LIFETIME:
        raise ConfigurationError(
            f"{where} must be more than 0 and at most {MAX_LIFETIME.days:,} days"
        )
    return value
