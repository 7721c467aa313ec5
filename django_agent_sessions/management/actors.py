"""The actor of a command for the audit trail: a user or a program."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import CommandError, CommandParser

from django_agent_sessions.exceptions import SessionNotFoundError
from django_agent_sessions.interchange.owner_mapping import find_user


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
        help=f"The program that acts, for the audit trail: {command} by default. Not a username.",
    )


def get_actor(options: dict[str, Any], using: str) -> Any:
    """Return the user or the program's name that the options set."""
    if options["actor"] is not None:
        return _user(options["actor"], using)
    program = options["program"]
    if not program.strip():
        raise CommandError("--program requires a name")
    users = get_user_model()
    # The audit trail would attribute the action to that user.
    if users._default_manager.using(using).filter(**{users.USERNAME_FIELD: program}).exists():
        raise CommandError(f"{program!r} is a user: use --actor instead of --program")
    return program


def _user(name: str, using: str) -> Any:
    try:
        key = find_user(name, using=using)
    except SessionNotFoundError:
        raise CommandError(
            f"--actor {name!r} matches no user or several: use a username or primary key, "
            "or --program for a program"
        ) from None
    return get_user_model()._default_manager.using(using).get(pk=key)
