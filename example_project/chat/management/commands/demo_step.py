"""One step of the demonstration, in this process; :mod:`.demo` runs them all."""

from __future__ import annotations

import signal
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from example_project.chat.demo.report import Report
from example_project.chat.demo.steps import STEPS


class Command(BaseCommand):
    """Runs one step."""

    help = "Runs one step of the demonstration. Use the command “demo”, which runs them all."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Takes the step's name."""
        parser.add_argument("step", choices=list(STEPS))

    def handle(self, *args: Any, **options: Any) -> None:
        """Runs the step.

        Raises:
            CommandError: A promise was not kept.
        """
        # Ctrl-C ends the demonstration, which says so; this process need not too.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        STEPS[options["step"]](Report(self.stdout._out))
