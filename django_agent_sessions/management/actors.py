"""Who a command acts for, as the audit trail names them: a user that there is, or a program."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import CommandError, CommandParser

from django_agent_sessions.exceptions import SessionNotFoundError
from django_agent_sessions.interchange.owners import find_user


def add_actor(parser: CommandParser, command: str) -> None:
    """Adds the options that say who acts."""
    who = parser.add_mutually_exclusive_group()
    who.add_argument(
        "--actor",
        metavar="USER",
        help="Who acts, for the audit trail: a user name or primary key.",
    )
    who.add_argument(
        "--program",
        default=command,
        metavar="NAME",
        help=f"What acts, if it is a program: {command} by default. A user's name is refused.",
    )


def actor_of(options: dict[str, Any], using: str) -> Any:
    """Tells who acts."""
    if options["actor"] is not None:
        return _user(options["actor"], using)
    program = options["program"]
    if not program.strip():
        raise CommandError("a --program needs a name")
    users = get_user_model()
    # In the trail it would read as if that user had done it.
    if users._default_manager.using(using).filter(**{users.USERNAME_FIELD: program}).exists():
        raise CommandError(f"{program!r} is a user: give it as --actor")
    return program


def _user(name: str, using: str) -> Any:
    try:
        key = find_user(name, using=using)
    except SessionNotFoundError:
        raise CommandError(
            f"--actor {name!r} names no user, or more than one: give a user name or primary key, "
            "or name a program by --program"
        ) from None
    return get_user_model()._default_manager.using(using).get(pk=key)
