"""What a command redacts, without the secret in the shell's history or in an error."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

from django.core.management.base import CommandError, CommandParser

from django_agent_sessions import detectors
from django_agent_sessions.management.several import several
from django_agent_sessions.redaction import Detect, Find, Scope, WholeMessage

_ALL = "all"


def add_scopes(parser: CommandParser) -> None:
    """Adds the options that say what to redact."""
    group = parser.add_argument_group("what to redact (each may be given several times)")
    group.add_argument(
        "--find-stdin",
        action="store_true",
        help="A text, read from the standard input: all of it, as one text.",
    )
    group.add_argument(
        "--find-file",
        action="append",
        default=[],
        metavar="FILE",
        help="A text, read from a file: all of it, as one text.",
    )
    group.add_argument(
        "--find",
        action="append",
        default=[],
        metavar="TEXT",
        help="A text. The shell's history and the list of processes show it: see --find-stdin.",
    )
    group.add_argument(
        "--pattern",
        action="append",
        default=[],
        metavar="RE",
        help="A regular expression of Python's, in any case.",
    )
    group.add_argument(
        "--detector",
        action="extend",
        nargs="+",
        default=[],
        metavar="NAME",
        help=f"What this detector finds; {_ALL!r} for every one that needs nothing more.",
    )
    group.add_argument(
        "--message",
        action="append",
        type=_uuid,
        default=[],
        metavar="UUID",
        help="All that this message says; its primary key.",
    )


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise argparse.ArgumentTypeError("a message is named by its primary key, a UUID") from None


def scopes_of(options: dict[str, Any]) -> Iterator[Scope]:
    """Tells what to redact."""
    for message in several(options, "message"):
        yield WholeMessage(message)
    for text in several(options, "find"):
        yield Find(text)
    for name in several(options, "find_file"):
        yield Find(_read(name))
    if options["find_stdin"]:
        yield Find(_text(sys.stdin.buffer.read(), "the standard input"))
    for pattern in several(options, "pattern"):
        yield Find(pattern, pattern=True)
    chosen = several(options, "detector")
    if _ALL in chosen:
        yield Detect()
    if names := [name for name in chosen if name != _ALL]:
        yield Detect(_known(names))


def _known(names: list[str]) -> tuple[str, ...]:
    known = detectors.names()
    if any(name not in known for name in names):
        raise CommandError(f"there is no such detector; the names are: {', '.join(known)}, {_ALL}")
    return tuple(names)


def _read(name: str) -> str:
    try:
        return _text(Path(name).read_bytes(), name)
    except OSError as error:
        raise CommandError(f"{name} cannot be read: {error.strerror}") from error


def _text(data: bytes, name: str) -> str:
    try:
        # An editor's byte order mark is no part of it.
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        # The error would quote what was read.
        raise CommandError(f"{name} is not UTF-8") from None
