"""What every process of a run has imported before it is forked: Django, SDKs and writers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import django

django.setup()

from django.core.management import call_command
from django.db import connections

from . import finding, writers  # noqa: F401 - is there when writers are forked


def _migrate(files: Sequence[Path]) -> None:
    call_command("migrate", verbosity=0)
    connections.close_all()


def _judge(files: Sequence[Path]) -> Any:
    # The app's check first, because to talk to every agent writes messages.
    integrity = finding.integrity()
    return finding.find(files), integrity


TASKS: dict[str, Callable[[Sequence[Path]], Any]] = {"migrate": _migrate, "judge": _judge}
