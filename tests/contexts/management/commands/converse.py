"""``manage.py converse strands|openai SESSION TEXT…``."""

from __future__ import annotations

import asyncio
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from django.db import transaction

from tests.contexts.chats import NAMES, sdk_named


class Command(BaseCommand):
    help = "Talks to an agent."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("sdk", choices=NAMES)
        parser.add_argument("session_id")
        parser.add_argument("texts", nargs="+")
        parser.add_argument("--asyncio", action="store_true")
        parser.add_argument("--undo", action="store_true", help="in a transaction, rolled back")

    def handle(
        self, *, sdk: str, session_id: str, texts: list[str], undo: bool, **options: Any
    ) -> None:
        if undo:
            with transaction.atomic():
                self.converse(sdk, session_id, texts, options["asyncio"])
                transaction.set_rollback(True)
        else:
            self.converse(sdk, session_id, texts, options["asyncio"])

    def converse(self, sdk: str, session_id: str, texts: list[str], in_loop: bool) -> None:
        for text in texts:
            agent = sdk_named(sdk)
            if in_loop:
                self.stdout.write(asyncio.run(agent(session_id).asay(text)))
            else:
                self.stdout.write(agent(session_id).say(text))
