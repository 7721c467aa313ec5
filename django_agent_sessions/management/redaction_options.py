"""The options of what to redact, which keep secrets out of shell history and error messages."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

from django.core.management.base import CommandError, CommandParser

from django_agent_sessions.content import detectors
from django_agent_sessions.governance.redaction import Detect, Find, Scope, WholeMessage
from django_agent_sessions.management.options import list_option

_ALL = "all"


def add_scopes(parser: CommandParser) -> None:
    """Add the options of what to redact."""
    group = parser.add_argument_group("what to redact (options can be repeated)")
    group.add_argument(
        "--find-stdin",
        action="store_true",
        help="A text: the whole standard input.",
    )
    group.add_argument(
        "--find-file",
        action="append",
        default=[],
        metavar="FILE",
        help="A text: the whole content of a file.",
    )
    group.add_argument(
        "--find",
        action="append",
        default=[],
        metavar="TEXT",
        help="A text. Shell history and process lists reveal it: prefer --find-stdin.",
    )
    group.add_argument(
        "--pattern",
        action="append",
        default=[],
        metavar="RE",
        help="A Python regular expression; case is ignored.",
    )
    group.add_argument(
        "--detector",
        action="extend",
        nargs="+",
        default=[],
        metavar="NAME",
        help=f"What this detector finds; {_ALL!r} for all installed ones except presidio.",
    )
    group.add_argument(
        "--message",
        action="append",
        type=_uuid,
        default=[],
        metavar="UUID",
        help="The whole message with this primary key.",
    )


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            "a message is identified by its primary key, a UUID"
        ) from None


def get_scopes(options: dict[str, Any]) -> Iterator[Scope]:
    """Yield the scopes that the options set."""
    for message in list_option(options, "message"):
        yield WholeMessage(message)
    for text in list_option(options, "find"):
        yield Find(text)
    for name in list_option(options, "find_file"):
        yield Find(_read_file(name))
    if options["find_stdin"]:
        yield Find(_decode(sys.stdin.buffer.read(), "the standard input"))
    for pattern in list_option(options, "pattern"):
        yield Find(pattern, pattern=True)
    selected = list_option(options, "detector")
    if _ALL in selected:
        yield Detect()
    if names := [name for name in selected if name != _ALL]:
        yield Detect(_require_known(names))


def _require_known(names: list[str]) -> tuple[str, ...]:
    known = detectors.names()
    if any(name not in known for name in names):
        raise CommandError(f"unknown detector; use one of: {', '.join(known)}, {_ALL}")
    return tuple(names)


def _read_file(name: str) -> str:
    try:
        return _decode(Path(name).read_bytes(), name)
    except OSError as error:
        raise CommandError(f"{name} cannot be read: {error.strerror}") from error


def _decode(data: bytes, name: str) -> str:
    try:
        # Removes a byte order mark.
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        # The original error quotes the content.
        raise CommandError(f"{name} is not UTF-8") from None
