"""Cleans up the storage of large binaries."""

from __future__ import annotations

import argparse
from datetime import timedelta
from typing import Any

from django.core.files.storage import storages
from django.core.management.base import CommandError, CommandParser
from django.template.defaultfilters import filesizeformat

from django_agent_sessions import batches
from django_agent_sessions.blobs.collecting import DEFAULT_AGE, Collection, collect, users_of
from django_agent_sessions.management.databases import add_database, database_of
from django_agent_sessions.management.stopping import StoppableCommand
from django_agent_sessions.models import Session


class Command(StoppableCommand):
    """``manage.py agent_sessions_gc``: made to be run once a day or week."""

    help = (
        "Finishes deletions of large sessions that were interrupted. Deletes files of the storage "
        "of large binaries that no message uses, as a crash or a transaction that was rolled back "
        "leaves them, and tells which are missing or damaged."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Adds what is to be looked at, and what is to be deleted."""
        parser.add_argument("--dry-run", action="store_true", help="Only tell what there is.")
        parser.add_argument(
            "--older-than",
            type=_hours,
            default=DEFAULT_AGE / timedelta(hours=1),
            metavar="HOURS",
            help="Leave younger files alone, which a transaction may be about to name: 24.",
        )
        parser.add_argument(
            "--verify",
            action="store_true",
            help="Read every file and compare its hash; else only its size is compared.",
        )
        parser.add_argument(
            "--unknown-sessions",
            action="store_true",
            help="Also delete files of sessions that no database knows. Not where several projects "
            "share the storage and BLOB_PREFIX: they would be those of the others.",
        )
        parser.add_argument(
            "--storage",
            choices=tuple(storages.backends),
            help="Only this alias of STORAGES; by default all that messages refer to.",
        )
        add_database(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Cleans up, and prints what there was."""
        dry_run = options["dry_run"]
        alias = database_of(options)
        self._finish_deletions(alias, dry_run=dry_run)
        found = collect(
            older_than=timedelta(hours=options["older_than"]),
            dry_run=dry_run,
            storage=options["storage"],
            using=alias,
            unknown_sessions=options["unknown_sessions"],
            verify=options["verify"],
        )
        for path in found.files if options["verbosity"] > 1 or dry_run else ():
            self.stdout.write(f"orphan {path}")
        for word, keys in (("missing", found.missing), ("damaged", found.damaged)):
            for key, messages in users_of(keys, alias).items():
                used = ", ".join(map(str, messages)) or "none"
                self.stdout.write(f"{word} file of binary {key}; messages with it: {used}")
        done = "would be deleted" if dry_run else "deleted"
        # Of a unit with a space that no terminal wraps at.
        size = filesizeformat(found.bytes).replace("\xa0", " ")
        self.stdout.write(
            f"{len(found.files)} orphaned files ({size}) and {found.rows} unused binaries {done}; "
            f"{found.young} younger files left alone"
        )
        self._tell_of_unknown(found)
        if failed := _failed(found):
            raise CommandError("\n".join(failed))

    def _finish_deletions(self, using: str, *, dry_run: bool) -> None:
        sessions = Session.objects.using(using)
        begun = sessions.filter(namespace=batches.DOOMED, legal_hold=False)
        count = begun.count() if dry_run else batches.finish(sessions)
        if count:
            done = "would be finished" if dry_run else "finished"
            self.stdout.write(f"{count} interrupted deletions of sessions {done}")

    def _tell_of_unknown(self, found: Collection) -> None:
        for alias in found.not_asked:
            self.stdout.write(f"database {alias!r} did not answer, and may know more sessions")
        if found.unknown:
            self.stdout.write(
                f"{found.unknown} files of {found.unknown_sessions} sessions that no database "
                "knows left alone: sessions that were deleted while the storage did not answer, or "
                "those of another project. If no other uses this storage and BLOB_PREFIX, "
                "--unknown-sessions deletes them"
            )


def _failed(found: Collection) -> list[str]:
    failed = [
        f"storage {alias!r} could not be cleaned up: {why}" for alias, why in found.failures.items()
    ]
    if found.missing or found.damaged:
        failed.append(
            f"{len(found.missing)} binaries have no file and {len(found.damaged)} a damaged one: "
            "restore the storage from a backup, or redact the messages that refer to them"
        )
    return failed


def _hours(value: str) -> float:
    try:
        hours = float(value)
    except ValueError:
        hours = -1.0
    if not 0 <= hours < 1e6:
        raise argparse.ArgumentTypeError("give a number of hours, such as 24")
    return hours
