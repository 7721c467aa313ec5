"""Erase a person from a terminal, and verify the receipt of an erasure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.template.loader import render_to_string
from django.utils.translation import get_language

from django_agent_sessions.exceptions import (
    AgentSessionsError,
    LegalHoldError,
)
from django_agent_sessions.governance.erasure import ErasureReceipt, erase, verify
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
    """``manage.py agent_sessions_erase``: erases with ``--owner``, or checks with ``--verify``."""

    stopped = "Stopped. Run the command again: it erases what is left and writes the receipt."
    help = (
        "Erases a person: all sessions of the user, copies of them in forks of other owners, "
        "feedback, usage figures, and the user's name in the audit trail. Refused if a session is "
        "under legal hold. The user's own row is not deleted. Run agent_sessions_scrub afterwards."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument(
            "--owner", metavar="USER", help="The user to erase: a username or primary key."
        )
        what.add_argument(
            "--verify",
            type=Path,
            metavar="FILE",
            help="Check the signature of a receipt, and that nothing of it is in the database.",
        )
        parser.add_argument(
            "--forks",
            choices=("redact", "delete"),
            default="redact",
            help="What becomes of forks that other users own. Default: redact.",
        )
        parser.add_argument("--dry-run", action="store_true", help="Count, and change nothing.")
        parser.add_argument(
            "--receipt", type=Path, metavar="FILE", help="Write the receipt to this new file."
        )
        parser.add_argument(
            "--html", type=Path, metavar="FILE", help="Also write the receipt as a page to print."
        )
        add_reason(parser)
        add_actor(parser, "agent_sessions_erase")
        add_database(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        using = get_database(options)
        if options["verify"] is not None:
            self._verify(options["verify"], using)
            return
        action, dry_run = AuditEvent.Action.ERASED, options["dry_run"]
        reason = "" if dry_run else get_reason(options, action, required=True)
        for path in filter(None, (options["receipt"], options["html"])):
            # Before anything is erased: the receipt would be lost.
            if path.exists() or not path.parent.is_dir():
                raise CommandError(f"{path}: the file exists, or its directory does not")
        try:
            receipt = erase(
                find_person(options["owner"], using),
                reason=reason,
                actor=get_actor(options, using),
                forks=options["forks"],
                dry_run=dry_run,
                using=using,
            )
        except LegalHoldError as error:
            held = sorted(str(session.pk) for session in error.protected_objects)
            raise CommandError("under legal hold:\n" + "\n".join(held)) from error
        except AgentSessionsError as error:
            raise CommandError(str(error)) from error
        self._write(receipt, options)

    def _verify(self, path: Path, using: str) -> None:
        try:
            problems = verify(path.read_text(), using=using)
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(f"{path} cannot be read: {error}") from error
        except AgentSessionsError as error:
            raise CommandError(str(error)) from error
        if problems:
            raise CommandError("the receipt does not hold:\n" + "\n".join(problems))
        self.stdout.write("the receipt holds: its signature is right, and nothing of it is stored")

    def _write(self, receipt: ErasureReceipt, options: dict[str, Any]) -> None:
        text = receipt.to_json()
        if options["receipt"] is None:
            self.stdout.write(text)
        else:
            with new_file(options["receipt"]) as file:
                file.write(text.encode())
        if options["html"] is not None:
            signature = json.loads(text)["signature"]
            context = {"receipt": receipt, "signature": signature, "language": get_language()}
            page = render_to_string("agent_sessions/erasure/receipt.html", context)
            with new_file(options["html"]) as file:
                file.write(page.encode())
        if not any(receipt.counts.values()):
            self.stderr.write(
                f"nothing of {options['owner']!r} was found: check --owner and --database"
            )
        if receipt.keys_kept:
            self.stderr.write(
                "data keys of the person were kept, because rows still need them; see the log, and "
                "run the command again: " + ", ".join(receipt.keys_kept)
            )
        for key in receipt.held_sessions:
            self.stderr.write(f"under legal hold: {key}")
