"""The blocks of a page of ``docs/how-to/coming-from``, and a project in which they run."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .written import ROOT

DOCS = ROOT / "docs" / "how-to" / "coming-from"
_COMMAND = "$ python manage.py "


def blocks(page: str, language: str) -> list[str]:
    """The blocks of this language, in order."""
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)


def python(page: str, **given: Any) -> dict[str, Any]:
    """The names that the page's Python defines."""
    namespace: dict[str, Any] = given
    for block in blocks(page, "python"):
        exec(block, namespace)  # noqa: S102 - our own page
    return namespace


def commands(page: str) -> list[tuple[list[str], str]]:
    """The arguments of each command of the page, and what the page says that it prints."""
    found = []
    for block in blocks(page, "console"):
        command, printed = block.split("\n", 1)
        assert command.startswith(_COMMAND)
        found.append((shlex.split(os.path.expandvars(command.removeprefix(_COMMAND))), printed))
    return found


def check(page: str, run: Callable[[Sequence[str]], str]) -> None:
    """Runs the page's two commands, after a dry run of the first, as a reader would."""
    (arguments, printed), again = commands(page)
    assert again[0] == arguments
    assert run([*arguments, "--dry-run"]) == printed.replace(" written;", " would be written;")
    assert run(arguments) == printed
    assert run(again[0]) == again[1]


def write_owners(page: str, directory: Path) -> None:
    """Writes the page's file of owners."""
    [owners] = blocks(page, "text")
    (directory / "owners.csv").write_text(owners)


_SETTINGS = """\
SECRET_KEY = "test"
USE_TZ = True
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django_agent_sessions",
]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "db.sqlite3"}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
SILENCED_SYSTEM_CHECKS = ["agent_sessions.W001"]
"""


_SET_UP = """\
import asyncio, io, json
import django
django.setup()
from django.contrib.auth.models import User
from django.core.management import call_command
from django_agent_sessions.adapters.openai_agents import DjangoSession
from tests.interchange.coming_from import pages

def run(arguments):
    out = io.StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue()

def items(session):
    return asyncio.run(session.get_items())

"""


class Project:
    """A project with a database that another package wrote, in which this app is new."""

    def __init__(self, directory: Path, database: Path, *, settings: str = "") -> None:
        self.directory = directory
        database.rename(directory / "db.sqlite3")
        (directory / "settings.py").write_text(_SETTINGS + settings)

    def add(self, name: str, code: str) -> None:
        """Adds a module."""
        (self.directory / name).parent.mkdir(exist_ok=True)
        (self.directory / name).write_text(code)

    def execute(self, code: str) -> Any:
        """Returns what code prints as JSON, in a process of the project with the app's tables."""
        path = os.pathsep.join([str(self.directory), str(ROOT)])
        printed = subprocess.run(
            [sys.executable, "-c", f"{_SET_UP}run(['migrate', '--verbosity=0'])\n{code}"],
            cwd=self.directory,
            env={**os.environ, "DJANGO_SETTINGS_MODULE": "settings", "PYTHONPATH": path},
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout
        return json.loads(printed)
