"""How long Django's setup takes with the app, and without it, each time in a new process."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator

from .budgets import Verdict

MOST = 0.35
"""What the app may add, as a part of the time of Django's setup."""

APP = "django_agent_sessions"
_LEAST = ("django.contrib.auth", "django.contrib.contenttypes")
_PROJECTS = {
    "with auth and contenttypes only": _LEAST,
    "with the apps of a new project, the admin among them": (
        "django.contrib.admin",
        *_LEAST,
        "django.contrib.sessions",
        "django.contrib.messages",
        "django.contrib.staticfiles",
    ),
}
_CODE = """
import sys, time
began = time.perf_counter()
import django
from django.conf import settings
settings.configure(INSTALLED_APPS=sys.argv[1:], SECRET_KEY="benchmark", USE_TZ=True)
django.setup()
print(time.perf_counter() - began)
"""


def judge(rounds: int) -> Iterator[Verdict]:
    """Measures and judges."""
    taken: dict[tuple[str, bool], list[float]] = defaultdict(list)
    for turn in range(rounds + 1):
        for project, apps in _PROJECTS.items():
            for ours in (True, False) if turn % 2 else (False, True):
                seconds = _set_up(*apps, *([APP] if ours else []))
                # The first one may have had to compile.
                if turn:
                    taken[project, ours].append(seconds)
    for project in _PROJECTS:
        alone = statistics.median(taken[project, False])
        added = statistics.median(taken[project, True]) - alone
        yield Verdict(
            subject=f"import of the app, {project}",
            allowed=f"at most {MOST:.0%} more",
            ours=APP,
            measured=f"{added / alone:.0%} more ({added * 1_000:.0f} ms)",
            against=f"Django's setup alone: {alone * 1_000:.0f} ms",
            kept=added <= MOST * alone,
        )


def _set_up(*apps: str) -> float:
    # What was compiled the first time has to stay so.
    others = ("DJANGO_SETTINGS_MODULE", "PYTHONDONTWRITEBYTECODE")
    environment = {k: v for k, v in os.environ.items() if k not in others}
    command = [sys.executable, "-c", _CODE, *apps]
    done = subprocess.run(command, stdout=subprocess.PIPE, env=environment, check=True, text=True)
    return float(done.stdout)
