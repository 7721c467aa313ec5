"""Clean up the storages of large binaries."""

from __future__ import annotations

import argparse
from datetime import timedelta
from typing import Any

from django.core.files.storage import storages
from django.core.management.base import CommandError, CommandParser
from django.template.defaultfilters import filesizeformat

from django_agent_sessions.blobs import files_to_delete
from django_agent_sessions.blobs.garbage_collection import (
    DEFAULT_AGE,
    CollectionResult,
    collect,
    messages_using,
)
from django_agent_sessions.management.options import add_database, get_database
from django_agent_sessions.management.terminal import StoppableCommand, pluralize
from django_agent_sessions.models import Session, deletion


class Command(StoppableCommand):
    """``manage.py agent_sessions_gc``: intended to run daily or weekly."""

    help = (
        "Completes interrupted deletions of large sessions, and deletes the files that deletions "
        "left. Deletes orphaned files of the storage "
        "of large binaries, which crashes and rolled-back transactions leave behind, and lists "
        "missing and damaged files."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--dry-run", action="store_true", help="Only list what would be deleted."
        )
        parser.add_argument(
            "--older-than",
            type=_parse_hours,
            default=DEFAULT_AGE / timedelta(hours=1),
            metavar="HOURS",
            help="Keep files newer than this, because an open transaction may refer to them. "
            "Default: 24.",
        )
        parser.add_argument(
            "--verify",
            action="store_true",
            help="Read every file and compare its hash instead of its size only.",
        )
        parser.add_argument(
            "--unknown-sessions",
            action="store_true",
            help="Also delete files of sessions that are in no database. Do not use this option "
            "if several projects share the storage and BLOB_PREFIX: it would delete the "
            "files of the other projects.",
        )
        parser.add_argument(
            "--storage",
            choices=tuple(storages.backends),
            help="Only this alias of STORAGES; by default all that messages refer to.",
        )
        add_database(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        dry_run = options["dry_run"]
        alias = get_database(options)
        self._finish_deletions(alias, dry_run=dry_run)
        self._delete_remaining(alias, options["storage"], dry_run=dry_run)
        collection = collect(
            older_than=timedelta(hours=options["older_than"]),
            dry_run=dry_run,
            storage=options["storage"],
            using=alias,
            unknown_sessions=options["unknown_sessions"],
            verify=options["verify"],
        )
        for path in collection.files if options["verbosity"] > 1 or dry_run else ():
            self.stdout.write(f"orphan {path}")
        for word, keys in (("missing", collection.missing), ("damaged", collection.damaged)):
            for key, messages in messages_using(keys, alias).items():
                used = ", ".join(map(str, messages)) or "none"
                self.stdout.write(f"{word} file of binary {key}; messages with it: {used}")
        done = "would be deleted" if dry_run else "deleted"
        # filesizeformat uses a no-break space.
        size = filesizeformat(collection.bytes).replace("\xa0", " ")
        self.stdout.write(
            f"{len(collection.files)} orphaned files ({size}) and {collection.rows} unused "
            f"binaries {done}; {collection.too_recent} newer files kept"
        )
        self._report_unknown(collection)
        errors = _errors(collection)
        left = files_to_delete.remaining_files(alias, options["storage"]).count()
        if left and not dry_run:
            errors.append(
                f"{pluralize(left, 'file')} of deleted content could not be deleted: the storage "
                "is not available, or refuses; run the command again when it does not"
            )
        if errors:
            raise CommandError("\n".join(errors))

    def _finish_deletions(self, using: str, *, dry_run: bool) -> None:
        sessions = Session.objects.using(using)
        count = (
            deletion.tombstones(sessions).count()
            if dry_run
            else deletion.delete_tombstones(sessions)
        )
        if count:
            done = "would be completed" if dry_run else "completed"
            self.stdout.write(f"{count} interrupted deletions of sessions {done}")

    def _delete_remaining(self, using: str, storage: str | None, *, dry_run: bool) -> None:
        if dry_run:
            count = files_to_delete.remaining_files(using, storage).count()
        else:
            count = files_to_delete.delete_remaining(using, storage)
        if count:
            done = "would be deleted" if dry_run else "deleted"
            self.stdout.write(f"{pluralize(count, 'file')} of deleted content {done}")

    def _report_unknown(self, collection: CollectionResult) -> None:
        for alias in collection.unavailable_databases:
            self.stdout.write(
                f"database {alias!r} is unavailable and may contain more sessions; "
                "run the command again when it is available"
            )
        if collection.unknown_files:
            self.stdout.write(
                f"{collection.unknown_files} files of {collection.unknown_sessions} unknown "
                "sessions kept: the sessions were deleted while the storage was unavailable, or "
                "belong to another project. If no other project uses this storage and "
                "BLOB_PREFIX, delete them with --unknown-sessions"
            )


def _errors(collection: CollectionResult) -> list[str]:
    errors = [
        f"storage {alias!r} could not be cleaned up: {why}"
        for alias, why in collection.failures.items()
    ]
    if collection.missing or collection.damaged:
        errors.append(
            f"{len(collection.missing)} binaries have no file, and {len(collection.damaged)} have "
            "a damaged one: restore the storage from a backup, or redact the messages that refer "
            "to them"
        )
    return errors


def _parse_hours(value: str) -> float:
    try:
        hours = float(value)
    except ValueError:
        hours = -1.0
    if not 0 <= hours < 1e6:
        raise argparse.ArgumentTypeError("use a number of hours, such as 24")
    return hours
