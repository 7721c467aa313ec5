"""Put sessions under legal hold from a terminal, or release them."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from django_agent_sessions.exceptions import AgentSessionsError
from django_agent_sessions.governance import legal_hold
from django_agent_sessions.management.options import (
    add_actor,
    add_database,
    add_key,
    add_reason,
    find_session,
    get_actor,
    get_database,
    get_reason,
)
from django_agent_sessions.management.terminal import StoppableCommand, pluralize
from django_agent_sessions.models import AuditEvent


class Command(StoppableCommand):
    """``manage.py agent_sessions_hold``: holds sessions, and releases them with ``--release``."""

    stopped = "Stopped. Run the command again for the other sessions."
    help = (
        "Puts sessions under legal hold, so that neither they nor their content can be deleted, or "
        "releases them. Nothing is changed unless all sessions exist."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "session",
            nargs="+",
            metavar="SESSION_ID",
            help="Sessions with these session ids or primary keys (UUIDs).",
        )
        parser.add_argument(
            "--release", action="store_true", help="Release the sessions from legal hold."
        )
        add_key(parser, help="The namespace of the sessions.")
        add_reason(parser)
        add_actor(parser, "agent_sessions_hold")
        add_database(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        release = options["release"]
        action = AuditEvent.Action.RELEASED if release else AuditEvent.Action.HELD
        change = legal_hold.release if release else legal_hold.hold
        reason = get_reason(options, action)
        alias = get_database(options)
        actor = get_actor(options, alias)
        keys = [find_session(alias, options, name) for name in options["session"]]
        try:
            changed = sum(change(key, reason=reason, actor=actor, using=alias) for key in keys)
        except AgentSessionsError as error:
            raise CommandError(str(error)) from error
        done = "released from legal hold" if release else "put under legal hold"
        self.stdout.write(f"{pluralize(changed, 'session')} {done}")
        if unchanged := len(keys) - changed:
            state = "not under legal hold" if release else "already under legal hold"
            self.stderr.write(f"{pluralize(unchanged, 'session')} {state}: nothing was recorded")
