"""Appends a hundred times a second, and says when it began each time and how long that took."""

from __future__ import annotations

import os
import time

os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.scale.settings"

import django

django.setup()

from django_agent_sessions.store import SessionStore

PAUSE = 0.01
SESSIONS = 20


def main() -> None:
    """Write until the process is ended."""
    store = SessionStore()
    sessions = [store.open(f"written-{os.getpid()}-{number}") for number in range(SESSIONS)]
    agents = [store.agents.open(session) for session in sessions]
    said = {"role": "user", "content": [{"text": "Say that again, please. " * 15}]}
    number = 0
    while True:
        # The clock that all processes of a machine share.
        begun = time.monotonic()
        store.append(agents[number % SESSIONS], said)
        lasted = time.monotonic() - begun
        print(begun, lasted, flush=True)
        number += 1
        time.sleep(max(0.0, PAUSE - lasted))


if __name__ == "__main__":
    main()
