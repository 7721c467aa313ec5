"""``manage.py demo``: shows what the app is for, from an empty database to a site to look at."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from argparse import ArgumentParser
from contextlib import ExitStack, suppress
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from django.conf import settings
from django.core.files import locks
from django.core.management.base import BaseCommand, CommandError

from example_project.chat.demo.report import Report
from example_project.chat.demo.search import SUFFIXES
from example_project.chat.demo.steps import LOGIN, STEPS

_HOST = "127.0.0.1"
_PORT = 8000
_HEADINGS = {
    "prepare": "1. A fresh database",
    "converse": "2. Conversations, in a first process",
    "carry_on": "3. Restored and continued, in a second process",
    "redact": "4. A secret is redacted",
    "prove": "5. Restored once more, in a process of its own",
}
_KILLED = {"converse": -signal.SIGKILL}
"""Steps that end by a signal on purpose."""


class Command(BaseCommand):
    """Runs every step in a process of its own, then serves the site."""

    help = "Runs agents, restores them in other processes, redacts a secret, and serves the site."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Takes what may differ."""
        parser.add_argument(
            "--no-serve", action="store_true", help="exit instead of serving the site"
        )
        parser.add_argument(
            "--port", type=int, help=f"port of the site; {_PORT}, or a free one if that is taken"
        )
        parser.add_argument(
            "--database",
            type=Path,
            help="SQLite file to use; its content is deleted. By default a file of the demo",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Runs the demonstration.

        Raises:
            CommandError: A step failed or was interrupted, or the port is taken.
        """
        report = Report(self.stdout._out)
        signal.signal(signal.SIGTERM, _stop)
        serves = not options["no_serve"]
        if serves and options["port"] is not None and not _is_free(options["port"]):
            raise CommandError(f"Port {options['port']} is taken; give another.")
        with ExitStack() as claimed:
            database = _fresh(options["database"] or _claim_own_database(claimed))
            environment = {
                **os.environ,
                "DJANGO_SETTINGS_MODULE": "example_project.settings",
                "EXAMPLE_DATABASE": str(database),
                "EXAMPLE_DEMO_LOGIN": LOGIN,
            }
            try:
                self._run_steps(report, database, environment)
            except KeyboardInterrupt:
                raise CommandError("Interrupted.", returncode=128 + signal.SIGINT) from None
            if serves:
                with suppress(KeyboardInterrupt):
                    _serve(report, options["port"], environment)
            report.line(f"\nDone. The database is {_shown(database)}.")

    def _run_steps(self, report: Report, database: Path, environment: dict[str, str]) -> None:
        report.line("django-agent-sessions: conversations of agents, in Django's database")
        report.line(f"Database: {_shown(database)}")
        for step in STEPS:
            report.heading(_HEADINGS[step])
            # Nobody watches these words come.
            quick = {"EXAMPLE_WORD_DELAY": "0", **environment}
            done = subprocess.run(_manage("demo_step", step), env=quick, check=False)
            if done.returncode != _KILLED.get(step, 0):
                raise CommandError(
                    f"The demonstration stopped in “{_HEADINGS[step]}” (exit {done.returncode})."
                )


def _serve(report: Report, port: int | None, environment: dict[str, str]) -> None:
    """Serves until interrupted; ends the server whatever happens."""
    port = port or (_PORT if _is_free(_PORT) else _free_port())
    address = f"{_HOST}:{port}"
    server = subprocess.Popen(
        [
            *(sys.executable, "-m", "uvicorn", "example_project.asgi:application"),
            *("--host", _HOST, "--port", str(port), "--log-level", "warning"),
            # Streams of pages that are open do not end by themselves.
            *("--timeout-graceful-shutdown", "2"),
        ],
        cwd=settings.BASE_DIR,
        env=environment,
        stdout=subprocess.DEVNULL,
    )
    try:
        _await(server, port)
        report.heading("6. A small chat site, with these conversations and new ones")
        report.read_texts("chat", f"http://{address}/")
        report.read_texts("admin", f"http://{address}/admin/")
        report.read_texts("API", f"http://{address}/api/agent-sessions/sessions/")
        report.read_texts("login", f"{LOGIN}, password {LOGIN}")
        report.line("\nCtrl-C ends it.")
        server.wait()
    finally:
        server.terminate()
        server.wait()


def _await(server: subprocess.Popen[bytes], port: int) -> None:
    for _ in range(600):
        if server.poll() is not None:
            raise CommandError(f"The server did not start (exit {server.returncode}).")
        with socket.socket() as probe:
            if probe.connect_ex((_HOST, port)) == 0:
                return
        time.sleep(0.1)
    raise CommandError("The server did not start within a minute.")


def _manage(*arguments: str) -> list[str]:
    return [sys.executable, str(settings.BASE_DIR / "manage.py"), *arguments]


def _claim_own_database(claimed: ExitStack) -> Path:
    """Finds a file that no other demonstration of this checkout is using, such as one served."""
    directory = settings.BASE_DIR / "example_project" / ".data"
    directory.mkdir(exist_ok=True)
    for number in range(1, 100):
        database = directory / ("demo.sqlite3" if number == 1 else f"demo-{number}.sqlite3")
        lock = claimed.enter_context(database.with_suffix(".lock").open("w"))
        if locks.lock(lock, locks.LOCK_EX | locks.LOCK_NB):
            return Path(database)
    raise CommandError("A hundred demonstrations are running; end one.")


def _fresh(database: Path) -> Path:
    for suffix in (*SUFFIXES, "-journal"):
        Path(f"{database}{suffix}").unlink(missing_ok=True)
    shutil.rmtree(database.with_suffix(".files"), ignore_errors=True)
    return database


def _shown(database: Path) -> str:
    try:
        return str(database.relative_to(settings.BASE_DIR))
    except ValueError:
        return str(database)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except OSError:
            return False
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        return int(probe.getsockname()[1])


def _stop(signum: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + signum)
