"""Export sessions to files; each export is recorded before its first byte is written."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import Any, TextIO
from uuid import UUID

from django.core.exceptions import SuspiciousFileOperation
from django.core.management.base import CommandError, CommandParser
from django.db.models import Q

from django_agent_sessions import audit, serving
from django_agent_sessions.exceptions import AgentSessionsError
from django_agent_sessions.interchange import export_markdown, export_sessions
from django_agent_sessions.interchange.jsonl_blobs import blob_directory
from django_agent_sessions.interchange.locations import open_location
from django_agent_sessions.interchange.owner_mapping import find_user
from django_agent_sessions.interchange.row_pages import each_session
from django_agent_sessions.interchange.sources import Skipped
from django_agent_sessions.interchange.strands_export import export_strands_files, has_strands_agent
from django_agent_sessions.interchange.strands_layout import Layout
from django_agent_sessions.management.atomic_files import new_file
from django_agent_sessions.management.options import (
    add_actor,
    add_database,
    add_key,
    add_reason,
    filter_by_key,
    get_actor,
    get_database,
    get_reason,
    list_option,
    parse_datetime_option,
)
from django_agent_sessions.management.terminal import (
    ProgressLine,
    StoppableCommand,
    end_without_reader,
    escape_control_characters,
    pluralize,
    set_encoding,
)
from django_agent_sessions.models import AuditEvent, Session, deletion

JSONL, MARKDOWN, STRANDS = "jsonl", "markdown", "strands-files"
STDOUT = "-"
_CHUNK_SIZE = 1024 * 1024


class Command(StoppableCommand):
    """``manage.py agent_sessions_export``: redacted content is exported redacted."""

    stopped = (
        "Stopped. Files without the suffix .part are complete; the other sessions were not "
        f"exported. Run the command again with another PLACE, or for {STRANDS} with the same one."
    )
    help = (
        "Exports sessions: as JSON Lines for programs, as Markdown for people, or as the files of "
        "Strands' own session managers. The audit trail records each session. The exit status is "
        "1 if something could not be written."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("format", choices=(JSONL, MARKDOWN, STRANDS), metavar="FORMAT")
        parser.add_argument(
            "place",
            nargs="?",
            default=STDOUT,
            metavar="PLACE",
            help=(
                f"{JSONL}: a new file, compressed if its name ends with .gz, or - for the "
                f"standard output; {MARKDOWN}: a directory; {STRANDS}: a directory, or "
                "STORAGE:FOLDER with an alias in STORAGES."
            ),
        )
        group = parser.add_argument_group(
            "which sessions (specify --session, --owner or --everybody; the others are filters)"
        )
        group.add_argument(
            "--session",
            action="append",
            default=[],
            metavar="ID",
            help="A session id or primary key; can be repeated.",
        )
        add_key(group, help="Sessions of this namespace.")
        group.add_argument(
            "--owner", metavar="USER", help="Sessions of this user: a username or primary key."
        )
        group.add_argument(
            "--since", metavar="DATE", help="Sessions with activity since this date."
        )
        group.add_argument(
            "--everybody", action="store_true", help="All sessions, with any owner or none."
        )
        add_reason(parser)
        add_actor(parser, "agent_sessions_export")
        add_database(parser)
        parser.add_argument(
            "--blobs-beside",
            action="store_true",
            help=(
                f"{JSONL}: also export the large binaries in BLOB_STORAGE, to a directory next to "
                "the file with the same name and the suffix .blobs."
            ),
        )
        parser.add_argument("--no-progress", action="store_true", help="Do not show progress.")

    def handle(self, *args: Any, **options: Any) -> None:
        # Required even if the setting does not: a command exports many sessions at once.
        get_reason(options, AuditEvent.Action.EXPORTED, required=True)
        if options["place"] == STDOUT and options["format"] != JSONL:
            raise CommandError(f"{options['format']} requires a PLACE to write to")
        if options["blobs_beside"] and (options["format"], options["place"] == STDOUT) != (
            JSONL,
            False,
        ):
            raise CommandError("--blobs-beside requires the format jsonl and a file as PLACE")
        alias = get_database(options)
        errors = options.get("stderr") or sys.stderr
        line = ProgressLine(errors, wanted=not options["no_progress"])
        try:
            sessions = _select_sessions(options, alias)
            run = _Export(options, alias, errors, line)
            run.write(sessions, self.stdout)
        except (AgentSessionsError, OSError) as error:
            if isinstance(error, BrokenPipeError) and options["place"] == STDOUT:
                end_without_reader(options.get("stdout") or sys.stdout)
            raise CommandError(escape_control_characters(_error_text(error))) from error
        finally:
            line.clear()
        errors.write(f"{pluralize(run.done, 'session')} exported\n")
        if run.errors:
            raise CommandError(f"{pluralize(run.errors, 'item')} could not be written: see above")


class _Export:
    """One run of the command."""

    def __init__(
        self, options: dict[str, Any], alias: str, stderr: TextIO, line: ProgressLine
    ) -> None:
        self.options, self.alias, self.stderr, self.line = options, alias, stderr, line
        self.actor = get_actor(options, alias)
        self.done = self.errors = 0

    def write(self, sessions: Any, stdout: Any) -> None:
        """Write sessions, and report what cannot be written."""
        form, place = self.options["format"], self.options["place"]
        if form == JSONL:
            self._write_jsonl(sessions, stdout, place)
        elif form == MARKDOWN:
            self._write_markdown(sessions, _directory(place))
        else:
            self._write_strands_files(sessions, Layout(*open_location(place, make=True)))

    def _write_jsonl(self, sessions: Any, stdout: Any, place: str) -> None:
        blobs_directory = blob_directory(place) if self.options["blobs_beside"] else None
        if place == STDOUT:
            # Programs read this output: always UTF-8, whatever the terminal's encoding.
            set_encoding(sys.stdout, encoding="utf-8", errors="strict")
            for chunk in self._json_lines(sessions, blobs_directory, None):
                # Without ending, Django's OutputWrapper would add a line feed to each chunk.
                stdout.write(chunk, ending="")
            return
        path = Path(place)
        with new_file(path) as file:
            file.writelines(
                serving.encode_in_chunks(
                    self._json_lines(sessions, blobs_directory, str(path.parent))
                )
            )
            if self.errors and not self.done:
                raise CommandError("no session could be written: see above")

    def _json_lines(
        self, sessions: Any, blobs_directory: Path | None, directory: str | None
    ) -> Iterator[str]:
        """Yield JSON lines; omit the line of a session that cannot be read to its end."""
        for session in self._each(sessions):
            self._record(session)
            with SpooledTemporaryFile(
                _CHUNK_SIZE, "w+", encoding="utf-8", newline="", dir=directory
            ) as line:
                try:
                    line.writelines(
                        export_sessions(
                            [session],
                            using=self.alias,
                            blobs=blobs_directory or True,
                            lost=partial(self._report_loss, session),
                        )
                    )
                except AgentSessionsError as error:
                    self._fail(session, error)
                    continue
                line.seek(0)
                yield from iter(partial(line.read, _CHUNK_SIZE), "")

    def _write_markdown(self, sessions: Any, directory: Path) -> None:
        for session in self._each(sessions):
            # Two session ids may result in the same safe name; the key makes it unique.
            path = directory / f"{serving.file_name(session)}_{session.pk}.md"
            try:
                with new_file(path) as file:
                    self._record(session)
                    file.writelines(
                        serving.encode_in_chunks(export_markdown(session, using=self.alias))
                    )
            except (AgentSessionsError, FileExistsError) as error:
                self._fail(session, error)

    def _write_strands_files(self, sessions: Any, layout: Layout) -> None:
        for session in self._each(sessions):
            if not has_strands_agent(session.pk, using=self.alias):
                self.done -= 1
                self._report_skipped(
                    Skipped(f"session {session.session_id!r}", "no Strands agent", error=False)
                )
                continue
            self._record(session)
            try:
                for skipped in export_strands_files(session, layout, using=self.alias):
                    self._report_skipped(skipped)
            except (AgentSessionsError, FileExistsError, SuspiciousFileOperation) as error:
                self._fail(session, error)

    def _fail(self, session: Session, error: Exception) -> None:
        self.done -= 1
        self._report_skipped(Skipped(f"session {session.session_id!r}", str(error)))

    def _report_loss(self, session: Session, error: Exception) -> None:
        self._report_skipped(
            Skipped(
                f"session {session.session_id!r}", f"{error}; the rest of the session is exported"
            )
        )

    def _report_skipped(self, skipped: Skipped) -> None:
        self.line.clear()
        self.stderr.write(escape_control_characters(f"{skipped.place}: {skipped.reason}") + "\n")
        self.errors += skipped.error

    def _each(self, sessions: Any) -> Iterator[Session]:
        for key in each_session(sessions):
            # Their key may have been destroyed, which is told by whatever reads them.
            rows = Session.objects.using(self.alias).defer(*deletion.ENCRYPTED)
            session = rows.filter(pk=key).first()
            if session is not None:
                yield session
                self.done += 1
                self.line.show(self.done, pluralize(self.done, "session"))

    def _record(self, session: Session) -> None:
        audit.record_checked(
            AuditEvent.Action.EXPORTED,
            session=session.pk,
            actor=self.actor,
            reason=self.options["reason"],
            details={
                "format": self.options["format"],
                "messages": session.message_count,
                "via": "agent_sessions_export",
            },
            using=self.alias,
        )


def _select_sessions(options: dict[str, Any], alias: str) -> Any:
    names = [str(name) for name in list_option(options, "session")]
    limited = bool(names) or options["owner"] is not None
    if limited == options["everybody"]:
        raise CommandError("specify which sessions: --session ID, --owner USER or --everybody")
    sessions = filter_by_key(Session.objects.using(alias).order_by("pk"), options)
    if options["owner"] is not None:
        sessions = sessions.filter(owner=find_user(options["owner"], using=alias))
    if options["since"] is not None:
        since = parse_datetime_option(options["since"], "--since")
        sessions = sessions.active_since(since)
    if not names:
        return sessions
    condition = Q(pk__in=[])
    for name in names:
        match = Q(session_id=name)
        with suppress(ValueError):
            match |= Q(pk=UUID(name))
        keys = sessions.filter(match).values_list("pk", flat=True)[:2]
        if not keys:
            raise CommandError(f"session {name!r} does not exist, or another option excludes it")
        if len(keys) > 1:
            raise CommandError(
                f"several sessions have the id {name!r}: use --namespace, --scope or a primary key"
            )
        condition |= match
    return sessions.filter(condition)


def _directory(place: str) -> Path:
    path = Path(place)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise FileExistsError(f"{path} is a file: use a directory") from None
    return path


def _error_text(error: Exception) -> str:
    """Return the reason of an error, without the system's error number."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)
