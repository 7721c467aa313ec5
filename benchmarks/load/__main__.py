"""``python -m benchmarks.load``: two hundred agents at once through the example's server.

Each person has a login and several conversations with an agent of either SDK, and reads every
answer to its end. It needs Linux, PostgreSQL (PGHOST, PGPORT, PGUSER, PGPASSWORD) or SQLite, and
takes Redis (REDIS_URL) as the cache that the server's processes share, or else the database. It
ends with 1 where an answer was wrong, something was lost or doubled, or a bound was broken.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from .plan import REAL_MODELS, Plan, parsed

_SHOWN = 10


def main() -> int:
    """Runs it, and prints the table."""
    plan = parsed()
    with tempfile.TemporaryDirectory(prefix="agent-sessions-load-") as directory:
        _prepare_environment(plan, directory)
        import django

        django.setup()
        # What follows needs Django's settings.
        from . import report
        from .running import run

        found = run(plan, Path(directory))
        for heading, lines in (
            ("a client", found.met["errors"]),
            ("the server's log", found.log),
            ("the database", found.faults),
        ):
            # A traceback says at its end what happened.
            kept = lines if len(lines) <= 2 * _SHOWN else [*lines[:_SHOWN], "…", *lines[-_SHOWN:]]
            for line in kept:
                print(f"{heading}: {line}", file=sys.stderr)
        print(report.page(found))
        return int(any(row.passed is False for row in report.rows(found)))


def _prepare_environment(plan: Plan, directory: str) -> None:
    for name in list(os.environ):
        # Nobody is to pay for this.
        if name in REAL_MODELS or name.startswith("AWS_"):
            del os.environ[name]
    os.environ.update(
        plan.environment(),
        DJANGO_SETTINGS_MODULE="benchmarks.load.settings",
        LOAD_DATABASE=f"agent_sessions_load_{os.getpid()}",
        LOAD_DIRECTORY=directory,
        LOAD_REDIS=_redis(),
    )


def _redis() -> str:
    """Finds Redis, if it is there, and a client for it."""
    address = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379/0")
    try:
        import redis

        redis.Redis.from_url(address, socket_connect_timeout=2).ping()
    except (ImportError, OSError, redis.RedisError):
        return ""
    return address


if __name__ == "__main__":
    sys.exit(main())
