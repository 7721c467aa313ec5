"""The options that several commands have in common."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Mapping
from contextlib import suppress
from datetime import date, datetime, time
from typing import Any, Protocol
from uuid import UUID

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management.base import CommandError, CommandParser
from django.db import connections
from django.db.migrations.loader import MigrationLoader
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime

from django_agent_sessions.audit import names_user
from django_agent_sessions.db import bridge
from django_agent_sessions.exceptions import (
    ReasonError,
    ReasonRequiredError,
    SessionNotFoundError,
)
from django_agent_sessions.governance.reasons import clean_reason
from django_agent_sessions.interchange.owner_mapping import find_user
from django_agent_sessions.models import AuditEvent, Session
from django_agent_sessions.models.querysets import SessionQuerySet, is_valid_in_all_time_zones
from django_agent_sessions.models.users import users
from django_agent_sessions.values.ids import SessionKey
from django_agent_sessions.values.owners import owner_key

_MAX_NUMBER = 1e9


def add_database(parser: CommandParser) -> None:
    """Add the option ``--database``."""
    parser.add_argument(
        "--database",
        choices=tuple(connections),
        help="The database alias; by default the one that stores the sessions.",
    )


def get_database(options: dict[str, Any]) -> str:
    """Return the alias that ``--database`` sets; require that it has our current tables."""
    alias = bridge.database(options["database"])
    # A query of a missing table would break an open transaction. The tables may be views.
    tables = connections[alias].introspection.table_names(include_views=True)
    if Session._meta.db_table not in tables:
        raise CommandError(
            f"database {alias!r} has no tables of django_agent_sessions: run migrate, or use "
            "another --database"
        )
    if unapplied := _unapplied_migrations(alias):
        raise CommandError(
            f"database {alias!r} lacks migrations of django_agent_sessions: "
            f"{', '.join(unapplied)}. Run migrate first."
        )
    return alias


def _unapplied_migrations(alias: str) -> list[str]:
    """Return the app's migrations to run; none if the tables were created in another way."""
    loader = MigrationLoader(connections[alias], ignore_no_migrations=True)
    app = Session._meta.app_label
    if app not in {label for label, _ in loader.applied_migrations}:
        return []
    return [
        name
        for label, name in sorted(loader.graph.nodes)
        if label == app and (label, name) not in loader.applied_migrations
    ]


class OptionHolder(Protocol):
    """What has options: a parser, or a group of one."""

    def add_argument(self, *names: str, **options: Any) -> Any:
        """Add an option."""


def add_key(parser: OptionHolder, *, help: str) -> None:  # noqa: A002 - argparse's name
    """Add the options for what session ids are unique in."""
    parser.add_argument("--namespace", help=help)
    parser.add_argument("--scope", help="The scope of the session ids in their namespace.")


def filter_by_key(sessions: SessionQuerySet, options: Mapping[str, Any]) -> SessionQuerySet:
    """Filter by the namespace and scope that the options name, if any."""
    names = [name for name in ("namespace", "scope") if options[name] is not None]
    return sessions.filter(**{name: options[name] for name in names})


def find_session(using: str, options: Mapping[str, Any], name: str) -> UUID:
    """Return the primary key of the session with this session id or primary key."""
    rows = Session.objects.using(using)
    namespace, scope = options["namespace"] or "", options["scope"] or ""
    key = rows.filter_key(SessionKey(namespace, scope, name)).values_list("pk", flat=True).first()
    if key is None:
        with suppress(ValueError):
            key = rows.filter(pk=UUID(name)).values_list("pk", flat=True).first()
    if key is None:
        named = {key: options[key] for key in ("namespace", "scope") if options[key]}
        where = " and ".join(f"{key} {value!r}" for key, value in named.items())
        hint = f" in {where}" if where else "; use --namespace, --scope or its primary key"
        raise CommandError(f"session {name!r} does not exist{hint}")
    return key


def parse_datetime_option(value: str | date, option: str) -> datetime:
    """Parse a date or time; a date is its start in the project's time zone."""
    text = str(value)
    try:
        day = parse_date(text)
        moment = parse_datetime(text) if day is None else datetime.combine(day, time())
    except ValueError as error:
        raise CommandError(f"{option}: {error}") from error
    if moment is None:
        raise CommandError(f"{option}: {text!r} is not a date; use a format such as 2026-01-31")
    if not is_valid_in_all_time_zones(moment):
        raise CommandError(
            f"{option}: {text!r} is out of range in some time zones; use another date"
        )
    return match_use_tz(moment)


def match_use_tz(moment: datetime) -> datetime:
    """Make a time aware or naive, as ``USE_TZ`` requires."""
    if timezone.is_aware(moment) == settings.USE_TZ:
        return moment
    return timezone.make_aware(moment) if settings.USE_TZ else timezone.make_naive(moment)


def parse_number(value: str) -> float:
    """Parse a positive number, for ``type=`` of an option."""
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 0 < number < _MAX_NUMBER:
        raise ArgumentTypeError("use a number more than 0, such as 30")
    return number


def list_option(options: dict[str, Any], name: str) -> list[Any]:
    """Return the values of a repeatable option as a list.

    ``call_command`` passes a single text unchanged, which would be read character by character.
    """
    value = options[name]
    return [value] if isinstance(value, str | UUID) else list(value)


def add_reason(parser: CommandParser) -> None:
    """Add the option ``--reason``."""
    parser.add_argument("--reason", default="", help="The reason, for the audit trail.")


def get_reason(
    options: dict[str, Any], action: AuditEvent.Action, *, required: bool = False
) -> str:
    """Return the reason of an action, which is required by its rule or with ``required``."""
    missing = CommandError(f"the action {action.value!r} requires a --reason")
    try:
        reason = clean_reason(action, options["reason"])
    except ReasonRequiredError:
        raise missing from None
    except ReasonError as error:
        raise CommandError(f"--reason: {error}") from error
    if required and not reason:
        raise missing
    return reason


def add_actor(parser: CommandParser, command: str) -> None:
    """Add the options ``--actor`` and ``--program``."""
    who = parser.add_mutually_exclusive_group()
    who.add_argument(
        "--actor",
        metavar="USER",
        help="The user who acts, for the audit trail: a username or primary key.",
    )
    who.add_argument(
        "--program",
        default=command,
        metavar="NAME",
        help=f"The program that acts, for the audit trail: {command} by default. No user's.",
    )


def get_actor(options: dict[str, Any], using: str) -> Any:
    """Return the user or the program's name that the options set."""
    if options["actor"] is not None:
        return _user(options["actor"], using)
    program = options["program"]
    if not program.strip():
        raise CommandError("--program requires a name")
    # The audit trail would attribute the action to that user.
    if names_user(program, using=using):
        raise CommandError(f"{program!r} is a user: use --actor instead of --program")
    return program


def find_person(name: str, using: str) -> Any:
    """Return a user's primary key, by a username or key; also of a user who was deleted."""
    if not name.strip():
        raise CommandError("--owner is empty: use a username or primary key")
    try:
        return find_user(name, using=using)
    except SessionNotFoundError:
        try:
            return owner_key(get_user_model()._meta.pk.to_python(name))
        except Exception as error:
            raise CommandError(f"--owner {name!r} matches no user or several") from error


def _user(name: str, using: str) -> Any:
    try:
        key = find_user(name, using=using)
    except SessionNotFoundError:
        raise CommandError(
            f"--actor {name!r} matches no user or several: use a username or primary key, "
            "or --program for a program"
        ) from None
    return users(using).get(pk=key)
