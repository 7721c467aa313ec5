"""``python -m benchmarks.encryption``: what encryption costs, on and off in turns."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from typing import Any

KEYS = {"KEYS": {"bench": bytes(32)}}
LENGTH, BATCH, ROUNDS = 1_000, 100, 41
ALLOWED = {"append one": 1.3, "append 100": 1.3, "restore 1,000": 6}


def main() -> int:
    """Run it; return 0 if every budget was kept."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.settings"
    import django

    django.setup()
    from django.test.utils import override_settings

    from . import databases
    from .tables import table, verdict

    rows, kept = [], True
    for alias in ("postgresql", "sqlite"):
        with databases.prepared(alias):
            settings: list[dict[str, Any]] = [{"DATABASE": alias}]
            settings.append({"DATABASE": alias, "ENCRYPTION": KEYS})
            works = []
            for given in settings:
                with override_settings(AGENT_SESSIONS=given):
                    works.append(_works(f"encrypted {len(given) > 1}"))
            for name, allowed in ALLOWED.items():
                times: list[list[float]] = [[], []]
                for turn in range(2 * ROUNDS):
                    which = int(turn % 4 in (1, 2))
                    with override_settings(AGENT_SESSIONS=settings[which]):
                        times[which].append(works[which][name]())
                off, on = (1e3 * statistics.median(one) for one in times)
                kept = kept and on / off <= allowed
                figures = f"{off:.2f} ms", f"{on:.2f} ms", f"{on / off:.2f}"
                rows.append((name, alias, *figures, f"{allowed}", verdict(on / off <= allowed)))
    print(table(["work", "database", "off", "on", "ratio", "at most", ""], rows, "llrrrrl"))
    return 0 if kept else 1


def _works(session_id: str) -> dict[str, Callable[[], float]]:
    from django_agent_sessions.store import SessionStore

    message = {"role": "user", "content": "Where is my order? " * 20}
    store = SessionStore()
    agent = store.agents.open(store.open(session_id))
    read = store.agents.open(store.open(f"{session_id} read"))
    for _ in range(LENGTH // BATCH):
        store.append_many(agent, [message] * BATCH)
        store.append_many(read, [message] * BATCH)

    def timed(work: Callable[[], object]) -> Callable[[], float]:
        def run() -> float:
            work()
            started = time.perf_counter()
            work()
            return time.perf_counter() - started

        return run

    return {
        "append one": timed(lambda: store.append(agent, message)),
        "append 100": timed(lambda: store.append_many(agent, [message] * BATCH)),
        "restore 1,000": timed(lambda: store.payloads(read)),
    }


if __name__ == "__main__":
    raise SystemExit(main())
