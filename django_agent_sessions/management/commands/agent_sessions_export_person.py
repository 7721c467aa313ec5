"""Export everything about a person to a zip file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from django_agent_sessions.exceptions import AgentSessionsError
from django_agent_sessions.interchange.person_export import export_person
from django_agent_sessions.management.atomic_files import new_file
from django_agent_sessions.management.options import (
    add_actor,
    add_database,
    add_reason,
    find_person,
    get_actor,
    get_database,
    get_reason,
)
from django_agent_sessions.management.terminal import StoppableCommand
from django_agent_sessions.models import AuditEvent


class Command(StoppableCommand):
    """``manage.py agent_sessions_export_person``: redacted content is exported redacted."""

    stopped = "Stopped. The file was not written."
    help = (
        "Exports everything about a person to a zip file: the user's sessions as JSON Lines and "
        "Markdown with their files, copies in forks of other owners, feedback, usage figures, and "
        "audit events. The audit trail records it."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, metavar="OUT.zip", help="The file; it must be new.")
        parser.add_argument(
            "--owner",
            required=True,
            metavar="USER",
            help="The person: a username or primary key, also of a deleted user.",
        )
        add_reason(parser)
        add_actor(parser, "agent_sessions_export_person")
        add_database(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        using = get_database(options)
        reason = get_reason(options, AuditEvent.Action.EXPORTED, required=True)
        try:
            with new_file(options["file"]) as file:
                export = export_person(
                    find_person(options["owner"], using),
                    reason=reason,
                    actor=get_actor(options, using),
                    using=using,
                )
                file.writelines(export)
        except (AgentSessionsError, OSError) as error:
            raise CommandError(str(error)) from error
        for problem in export.problems:
            self.stderr.write(problem)
        if export.problems:
            raise CommandError("the file was written, but is incomplete: see problems.txt in it")
