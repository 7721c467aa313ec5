"""Encrypt stored content, decrypt it, or change its keys."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import CommandError, CommandParser

from django_agent_sessions.content import codec
from django_agent_sessions.exceptions import BlobError, ConfigurationError, EncryptionError
from django_agent_sessions.management.options import add_database, get_database
from django_agent_sessions.management.terminal import ProgressLine, StoppableCommand, pluralize
from django_agent_sessions.store.contents import reseal

_ACTIONS = {
    "encrypt": "encrypt what is plain, or has another key than its owner",
    "decrypt": "write everything as plain text; requires DECRYPT_ONLY",
    "rotate": "create new data keys, and encrypt everything by them",
    "rewrap": "wrap the data keys by the current master key",
}


class Command(StoppableCommand):
    """``manage.py agent_sessions_encrypt``: runs while agents write, and can be repeated."""

    help = "Encrypts stored content, decrypts it, or changes its keys, as ENCRYPTION says."

    def add_arguments(self, parser: CommandParser) -> None:
        words = "; ".join(f"{name}: {what}" for name, what in _ACTIONS.items())
        parser.add_argument("action", choices=_ACTIONS, help=words)
        add_database(parser)

    def handle(self, *args: Any, action: str, **options: Any) -> None:
        using = get_database(options)
        try:
            self._run(action, using, options)
        except (BlobError, EncryptionError, ConfigurationError) as error:
            raise CommandError(f"{error} Everything that was rewritten before is kept.") from error

    def _run(self, action: str, using: str, options: dict[str, Any]) -> None:
        installed: Any = codec.installed()
        keys = getattr(installed, "keys", None)
        if keys is None:
            raise CommandError("Set AGENT_SESSIONS['ENCRYPTION'] first: it is not set.")
        if action == "rewrap":
            self.stdout.write(f"{pluralize(keys.rewrap(), 'data key')} wrapped by the current key")
            return
        if (action == "decrypt") == installed.encrypts:
            raise CommandError(
                "Set AGENT_SESSIONS['ENCRYPTION']['DECRYPT_ONLY'] to True first, and restart all "
                "processes: they would encrypt what they write."
                if installed.encrypts
                else "Remove DECRYPT_ONLY from AGENT_SESSIONS['ENCRYPTION'] first."
            )
        if action == "rotate":
            self.stdout.write(f"{pluralize(keys.rotate(), 'data key')} created")
        line = ProgressLine(options.get("stderr") or sys.stderr)
        try:
            found = reseal(
                using, progress=lambda n, m: line.show(n, f"{n} rows read, {m} rewritten")
            )
        finally:
            line.clear()
        self.stdout.write(f"{pluralize(found.read, 'row')} read, {found.written} rewritten")
        if found.erased:
            self.stdout.write(
                f"{pluralize(found.erased, 'row')} left as they are: their data keys were "
                "destroyed, or KEY_DATABASE names another database"
            )
